// Interface of the module librondo_hwloc.so, which reads this machine by hwloc.
#pragma once

namespace rondo::topology {

inline constexpr const char* kHwlocModule = "librondo_hwloc.so";
inline constexpr const char* kHwlocSymbol = "rondo_hwloc_machine_1";

/// Passes this machine's XML to `take`, once, and returns null; or returns why it cannot.
using HwlocMachine = const char* (*)(void* to, void (*take)(void* to, const char* xml));

} // namespace rondo::topology
