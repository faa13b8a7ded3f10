// Finds and ends the processes that ranks started and left running.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace rondo::tools {

struct Process {
  pid_t id = -1, parent = -1, session = -1;
  std::string name;
};

/// The descendants of this process, without zombies and without the descendants of the processes in
/// `except`.
struct Descendants {
  bool listed = false;          ///< /proc shows this process; without it the lists are empty
  std::vector<Process> here;    ///< in this process's session
  std::vector<Process> outside; ///< in a session of their own, as setsid(1) makes one
};
Descendants descendants(const std::vector<pid_t>& except = {});

/// Reaps all children that have ended. Returns whether this process still has a child.
bool hasChildren();

struct EndOptions {
  /// Process groups that get the signals where /proc is not mounted: processes that have left them
  /// cannot be found then.
  std::vector<pid_t> groups;
  std::vector<pid_t> except; ///< children of this process that must not be ended
  /// Waits for a moment, and says whether the processes are to be killed at once. Otherwise they
  /// have a second to end by themselves, and another one after SIGTERM.
  std::function<bool()> wait;
};

/// Ends the descendants of this process, which must be a child subreaper, so that none is lost when
/// its parent ends. Those in a session of their own go on: stderr says which they are. Takes a few
/// seconds at most; what cannot be killed in them is named on stderr too.
void endDescendants(const EndOptions& options);

} // namespace rondo::tools
