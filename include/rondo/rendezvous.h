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

/// 128 opaque bytes that name a job: an address to meet at and a 32-byte secret. Made by one
/// process, carried to the others by whatever means (a file of mode 0600, MPI, a pipe), never on a
/// command line. The rendezvous lives in the process that called create(), until it ends.
struct RONDO_API UniqueId {
  std::array<std::byte, 128> bytes{};

  /// Opens the rendezvous. Throws Error(system) or Error(init_failed).
  static UniqueId create();
  static UniqueId create(const Options& options);
};

/// Where a launcher put this process.
struct LaunchInfo {
  int rank = 0, size = 1, local_rank = 0;
  std::string launcher; ///< "rondo", "torchrun", "openmpi", "pmi", "pmix", "slurm", or "" if none
};

/// Recipe by which a communicator's ranks meet. A value: copy it freely.
class RONDO_API Rendezvous {
 public:
  /// `size` ranks as threads of this process. Every rank gets its own copy of one recipe:
  ///   auto meet = Rendezvous::inProcess(4);  ... thread r: Communicator::create(meet.as(r))
  static Rendezvous inProcess(int size);
  /// The rank's copy of an in-process recipe.
  Rendezvous as(int rank) const;

  /// Rank `rank` of `size`, over TCP, by an id made by UniqueId::create() in any one process.
  static Rendezvous uniqueId(const UniqueId& id, int rank, int size);

  /// Rank `rank` of `size`, at Options::comm_id, where rank 0 listens. No id need be carried; what
  /// is secret stands in Options::secret_file.
  static Rendezvous commId(int rank, int size);

  /// What the launcher says: `rondo run`, torchrun, mpirun (Open MPI), PMI, PMIx, Slurm, in this
  /// order. Without a launcher: one rank. Errors at Communicator::create().
  static Rendezvous environment();

  /// This rank will not come: Communicator::create() of the others throws this Error, whether they
  /// wait already or come later. `why` without a culprit: this rank. Waits for the rendezvous,
  /// at most for Options::init_timeout. Communicators that were made by the recipe before go on; it
  /// makes no more. Throws Error(init_failed) where the rendezvous is not reached; if it is lost
  /// behind that, the others wait for their deadline.
  void decline(const Error& why, const Options& options) const;

  /// What environment() would find. Throws Error(invalid_argument) for values that make no sense.
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

/// For programs that start the ranks of a job on this machine, as `rondo run` does: a meeting
/// point, and what each rank must be given so that Rendezvous::environment() finds it.
class RONDO_API Launch {
 public:
  /// Opens a rendezvous of `size` ranks on the loopback interface, which lives as long as this
  /// object and watches over the ranks. It starts a thread. Throws Error(system |
  /// invalid_argument).
  explicit Launch(int size);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Every rank must inherit this descriptor under the same number. It is close-on-exec here: clear
  /// that flag between fork and exec.
  int descriptor() const;
  /// "NAME=value", each to be set for the rank. Nothing in it is secret.
  std::vector<std::string> environment(int rank) const;
  /// The rank's process has ended, as waitpid() said. The ranks that still count on it get
  /// Error(peer_dead) within a second, even if something keeps its connections open. Any thread.
  void ended(int rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace rondo
