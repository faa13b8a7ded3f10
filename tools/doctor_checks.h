// The checks of `rondo doctor`: one row each.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rondo::tools {

/// What a check found. `fatal`: no job would run; otherwise a job runs, but slower, only on this
/// machine, or not at every size.
struct Fault {
  bool fatal = false;
  std::string text;
};

/// `ranks`: on this machine; 0: not known.
struct DoctorConfig {
  int ranks = 0;
  bool json = false, all = false;
  std::string svg; ///< file for the heat map of a job's links; empty: none
};

/// Null: nothing is wrong. Probes change nothing.
using Probe = std::optional<Fault> (*)(const DoctorConfig&);

struct Check {
  const char* name;
  Probe probe;
  const char* remedy;
};

/// Limits, memory, processors.
std::vector<Check> systemChecks();
/// Interfaces, names, and whether ranks reach each other.
std::vector<Check> networkChecks();

/// The interfaces that are up and that other machines may reach.
std::vector<std::string> outwardInterfaces();

/// "ucx: 1.13.1", "hwloc: missing", ...: libraries that Rondo uses where they exist.
std::vector<std::string> libraryLines();

/// The first line of a file of /proc or /sys; empty if it cannot be read.
std::string firstLine(const std::string& path);

} // namespace rondo::tools
