// This machine, as its system tells it.
#pragma once

#include <filesystem>

#include "topology/machine.h"

namespace rondo::topology {

/// What the kernel says in files of those of these processors: their packages, cores, caches from
/// level 2 on and NUMA nodes, no devices. Some files for each processor: for a rank, which has few
/// of them, a tenth of a millisecond, where hwloc takes 3 ms and opens libraries. What is not there
/// (in some containers) is left out: then all processors are cores of one package. `sys`: where the
/// kernel's files are.
Machine systemMachine(const Processors& of, const std::filesystem::path& sys = "/sys");

/// The whole machine with its devices, by hwloc, whose module librondo_hwloc.so is opened for it;
/// and what NVML says of links between GPUs, where its library is. Without the module: as
/// systemMachine() of allowedProcessors(), and `missing` says why. Either way the calling thread's
/// binding makes no difference.
Machine thisMachine(std::string& missing);

} // namespace rondo::topology
