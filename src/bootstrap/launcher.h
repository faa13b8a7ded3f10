// What the environment says about this process's place in a job, and where the job meets.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "net/connection.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"

namespace rondo::bootstrap {

/// Value of a variable; nullopt: not set, or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment processEnvironment();

/// The first launcher found, in the order of Rendezvous::environment(). Throws
/// Error(invalid_argument) that names the variable whose value makes no sense, or is missing.
LaunchInfo detectLauncher(const Environment& environment);

/// Where the ranks of a launch meet.
struct MeetingPoint {
  enum class Kind {
    descriptor, ///< a descriptor that holds the unique id
    address,    ///< "host:port"; rank 0 listens there
    mpi,        ///< nothing is known: MPI carries an id
  };
  Kind kind = Kind::address;
  int descriptor = -1;
  std::string address;
  std::string job; ///< words that tell this job from others at the same address
};

/// Throws Error(invalid_argument) that says which variables would help.
MeetingPoint findMeetingPoint(const LaunchInfo& launch, const Options& options,
                              const Environment& environment);

/// First host of a Slurm node list: "node003" of "node[003-005,007],x1".
/// Throws Error(invalid_argument) that names `variable`.
std::string firstHost(const std::string& list, const std::string& variable);

/// The 32 bytes, or 64 hex digits, of a file that nobody else may read. Throws Error(data) that
/// names the file.
net::Secret readSecretFile(const std::string& path);

/// The id in a descriptor that a launcher handed down. Throws Error(invalid_argument).
UniqueId readIdDescriptor(int descriptor);

} // namespace rondo::bootstrap
