// Reads this machine from the system's files or by hwloc.
#pragma once

#include <filesystem>

#include "topology/machine.h"

namespace rondo::topology {

/// Reads from the kernel's files the packages, cores, caches from level 2 on and NUMA nodes of
/// these processors; no devices. It reads a few files per processor: for a rank with few
/// processors this takes 0.1 ms, while hwloc takes 3 ms and opens libraries. Missing files (in
/// some containers) are skipped; then all processors are cores of one package. `sys`: where /sys
/// is, for tests.
Machine systemMachine(const Processors& of, const std::filesystem::path& sys = "/sys");

/// Reads the whole machine with its devices by hwloc, through the module librondo_hwloc.so, and the
/// links between GPUs from NVML, if it is installed. If the module cannot be used, the result is
/// that of systemMachine() for allowedProcessors(), and `missing` gives the reason. The calling
/// thread's binding makes no difference.
Machine thisMachine(std::string& missing);

} // namespace rondo::topology
