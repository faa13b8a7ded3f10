// Reads this process's rank and the job's rendezvous from the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "net/connection.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"

namespace rondo::bootstrap {

/// Value of a variable; nullopt if it is not set or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment processEnvironment();

/// Returns the first launcher found, in the order of Rendezvous::environment(). Throws
/// Error(invalid_argument), which names the invalid or missing variable.
LaunchInfo detectLauncher(const Environment& environment);

/// The rendezvous of a launch.
struct MeetingPoint {
  enum class Kind {
    descriptor, ///< a descriptor of a file with the unique id
    address,    ///< "host:port"; rank 0 listens there
    mpi,        ///< no address is known: MPI broadcasts an id
  };
  Kind kind = Kind::address;
  int descriptor = -1;
  std::string address;
  std::string job; ///< distinguishes this job from others at the same address
};

/// Throws Error(invalid_argument), which names the variables that would help.
MeetingPoint findMeetingPoint(const LaunchInfo& launch, const Options& options,
                              const Environment& environment);

/// First host of a Slurm node list: "node003" for "node[003-005,007],x1". Throws
/// Error(invalid_argument), which names `variable`.
std::string firstHost(const std::string& list, const std::string& variable);

/// Reads the 32 bytes, or 64 hex digits, of a file that only its owner may access. Throws
/// Error(data), which names the file.
net::Secret readSecretFile(const std::string& path);

/// Reads the id from a descriptor that a launcher passed on. Throws Error(invalid_argument).
UniqueId readIdDescriptor(int descriptor);

} // namespace rondo::bootstrap
