// How the ranks of a communicator find each other.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/error.h"
#include "rondo/export.h"

namespace rondo {

namespace bootstrap {
class Session;
class LocalGroup;
} // namespace bootstrap

struct Options;

/// Identifies a job: 128 opaque bytes with an address to meet at and a 32-byte secret. One process
/// makes it and passes it to the others: in a file of mode 0600, by MPI, or through a pipe, but
/// never on a command line. The process that called create() serves the rendezvous and then hosts
/// the control plane. If it is no rank, it must live as long as the job (see ~Communicator). Make a
/// new id for each communicator that is not made from another one.
struct RONDO_API UniqueId {
  std::array<std::byte, 128> bytes{};

  /// Makes an id and starts to serve its rendezvous. The first form reads the environment. Of
  /// `options`, only socket_interface and socket_family are used. Throws Error(system),
  /// Error(init_failed) or Error(invalid_argument).
  static UniqueId create();
  static UniqueId create(const Options& options);

  /// Returns how many processes wait in Communicator::join() for a rank; 0 once all ranks of a
  /// communicator have met there. Throws Error(invalid_argument) in a process that does not serve
  /// this rendezvous: only the one that made the id does, until it hands the control plane over.
  int waiting() const;
  /// Ends the rendezvous, if this process serves it and its ranks have not met yet. Ranks that wait
  /// there get Error(init_failed).
  void withdraw() const;
};

/// Rank and size that a launcher gave to this process.
struct LaunchInfo {
  /// `local_rank`: the rank's number among the ranks of its machine. If the launcher sets none, it
  /// equals `rank` where `launcher` is "rondo", and is 0 elsewhere.
  int rank = 0, size = 1, local_rank = 0;
  /// RONDO_RANK and RONDO_SIZE set by hand count as "rondo".
  std::string launcher; ///< "rondo", "torchrun", "openmpi", "pmi", "pmix", "slurm", or "" if none
};

/// Describes how the ranks of a communicator find each other. A value; it may be copied freely.
class RONDO_API Rendezvous {
 public:
  /// `size` ranks that are threads of this process. Each rank uses its own copy of one Rendezvous:
  ///   auto meet = Rendezvous::inProcess(4);  ... thread r: Communicator::create(meet.as(r))
  /// Throws Error(invalid_argument) if `size` is not 1 to 65536.
  static Rendezvous inProcess(int size);
  /// Returns the copy of an in-process Rendezvous for `rank`. Throws Error(invalid_argument) if
  /// this is not from inProcess(), or `rank` is not 0 to size() - 1.
  Rendezvous as(int rank) const;

  /// Rank `rank` of `size` ranks that meet over TCP. Any one process makes the id, by
  /// UniqueId::create(). Throws Error(invalid_argument) if `size` is not 1 to 65536, or `rank` is
  /// not 0 to `size` - 1.
  static Rendezvous uniqueId(const UniqueId& id, int rank, int size);

  /// Rank `rank` of `size` ranks that meet at Options::comm_id, where rank 0 listens. The ranks
  /// need not exchange an id; they share the secret in Options::secret_file. If create() fails
  /// because ranks did not come, all ranks may call it again. Throws as uniqueId().
  static Rendezvous commId(int rank, int size);

  /// Rank and size from the launcher. Looks for `rondo run`, torchrun, mpirun (Open MPI), PMI, PMIx
  /// and Slurm, in this order. Without a launcher: one rank. Errors appear at
  /// Communicator::create().
  static Rendezvous environment();

  /// Returns what environment() would find. Throws Error(invalid_argument) if the launcher's
  /// variables make no sense.
  static LaunchInfo detectLauncher();

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  friend class bootstrap::Session;
  enum class Kind { in_process, unique_id, comm_id, environment };
  Kind kind_ = Kind::environment;
  int rank_ = 0, size_ = 1;
  UniqueId id_{};
  std::shared_ptr<bootstrap::LocalGroup> group_;
};

/// For programs that start the ranks of a job on this machine, as `rondo run` does. Serves a
/// rendezvous, and says what each rank must be given so that Rendezvous::environment() finds it.
class RONDO_API Launch {
 public:
  /// Serves a rendezvous of `size` ranks on the loopback interface, and watches the ranks, as long
  /// as this object lives. Starts a thread. Throws Error(system) or Error(invalid_argument).
  explicit Launch(int size);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Every rank must inherit this descriptor under the same number. It is close-on-exec: clear that
  /// flag between fork and exec.
  int descriptor() const;
  /// Returns the variables to set for the rank, as "NAME=value". None of them is secret. Throws
  /// Error(invalid_argument) if `rank` is not a rank.
  std::vector<std::string> environment(int rank) const;
  /// Call this after waitpid() has reported the end of the rank's process. Ranks that still need it
  /// get Error(peer_dead) within a second, even if another process keeps its connections open.
  /// Ranks that still wait for all ranks get Error(init_failed). May be called from any thread.
  /// Throws Error(invalid_argument) if `rank` is not a rank.
  void ended(int rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace rondo
