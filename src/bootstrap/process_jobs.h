// The jobs of this process: the hubs that it hosts, and its ranks' memberships.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/fork.h"
#include "bootstrap/hub.h"
#include "bootstrap/membership.h"
#include "bootstrap/standby.h"
#include "rondo/rendezvous.h"

namespace rondo::bootstrap {

/// One object per process, because a unique id's rendezvous lives until the process ends, and
/// because a rank has one control connection for all its communicators. Any thread.
class ProcessJobs {
 public:
  /// The object is never destroyed, because other threads may use it while the process ends. open()
  /// and host() throw Error(system) then.
  static ProcessJobs& ofProcess();

  /// Opens a hub of a job, or returns the address of the one that this process hosts. It lives
  /// until all ranks have left, another process has taken it over, or the process ends. Throws
  /// Error(aborted) if the hub is to replace one that died, but this process hosts another hub of
  /// the job.
  net::SocketAddress host(const Hub::Settings& settings);
  /// The address of the hub that this process hosts; none if it hosts no hub of the job.
  std::optional<net::SocketAddress> hubOf(std::uint64_t job) const;
  /// As Hub::serve(). Does nothing if this process hosts no hub of the job.
  void serve(std::uint64_t job, const std::shared_ptr<Standby>& standby);
  /// As Hub::handOver(). Returns false if this process hosts no hub of the job.
  bool handOver(std::uint64_t job);
  /// Where this process listens, should the hub's process die. All ranks of the process share it.
  std::shared_ptr<Standby> standby(const Standby::Settings& settings);
  /// Newcomers that wait for a rank; none if this process hosts no hub of the job.
  std::optional<int> waiting(std::uint64_t job) const;
  /// Ends a hub early, unless all ranks of the job have met.
  void withdraw(std::uint64_t job);
  /// Ends a hub early. Does nothing if it has ended.
  void dismiss(std::uint64_t job);
  /// As Hub::ended(). Does nothing if the hub has ended.
  void ended(std::uint64_t job, int rank);

  /// Makes a communicator of all ranks. The first call connects; later ones use that connection.
  /// `keep`: the connection lives until the process ends, not just as long as its sessions.
  std::unique_ptr<Session> open(const Membership::Settings& settings, bool keep,
                                std::chrono::milliseconds limit);
  /// If the rank's start has failed before all ranks had come: drops its connection, and on rank 0
  /// the hub, so that the next open() starts anew. Returns whether it did.
  bool forgetFailed(std::uint64_t job, int rank);
  /// Whether the rank has that connection.
  bool member(std::uint64_t job, int rank) const;
  /// Makes open() throw `why` on the job's other ranks, now or later.
  void decline(const Membership::Settings& settings, bool keep, const Failure& why);

  /// Returns the id from `make`, which is called once per process: it may be collective over ranks.
  UniqueId onceExchanged(const std::function<UniqueId()>& make);

 private:
  ProcessJobs();
  /// The process ends: ends openings of other threads, memberships and hubs.
  void end();
  void endOpenings();

  /// Guards the opening of one rank: the process opens it only once at a time.
  class Opening;
  struct Entry {
    std::weak_ptr<Membership> membership;
    std::shared_ptr<Membership> kept;
    bool opening = false;
    std::thread::id opens = {}; ///< the thread that opens it
  };

  /// Null also for a copy from the process that forked this one, and when the process is ending,
  /// since a program's statics may outlive this table.
  std::shared_ptr<Hub> find(std::uint64_t job) const;

  const base::Maker maker_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Hub>> hubs_;       ///< by job
  std::map<std::uint64_t, std::weak_ptr<Standby>> standbys_; ///< by job
  std::map<std::pair<std::uint64_t, int>, Entry> entries_;   ///< by job and rank
  std::mutex exchange_mutex_;
  std::optional<UniqueId> exchanged_;
};

} // namespace rondo::bootstrap
