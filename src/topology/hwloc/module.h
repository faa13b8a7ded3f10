// What the module librondo_hwloc.so gives: this machine, in hwloc's own words.
#pragma once

namespace rondo::topology {

inline constexpr const char* kHwlocModule = "librondo_hwloc.so";
inline constexpr const char* kHwlocSymbol = "rondo_hwloc_machine_1";

/// This machine as XML, which `take` gets once; null, or why it cannot be had.
using HwlocMachine = const char* (*)(void* to, void (*take)(void* to, const char* xml));

} // namespace rondo::topology
