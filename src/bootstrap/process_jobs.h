// What one process knows of its jobs: the hubs that it hosts, and its ranks' memberships.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "bootstrap/hub.h"
#include "bootstrap/membership.h"
#include "rondo/rendezvous.h"

namespace rondo::bootstrap {

/// One per process, because a unique id's rendezvous lives until the process ends, and because
/// a rank has one control connection however many communicators it makes. Any thread.
class ProcessJobs {
 public:
  static ProcessJobs& ofProcess();

  /// The hub lives until all ranks have come and gone, another rank's process has taken it over, or
  /// the process ends.
  net::SocketAddress host(const Hub::Settings& settings);
  /// Of the hub that this process hosts; none: it does not.
  std::optional<net::SocketAddress> hubOf(std::uint64_t job) const;
  /// As Hub::handOver(); false also if this process hosts no hub of the job.
  bool handOver(std::uint64_t job);
  /// Ends a hub early; nothing if it is over already.
  void dismiss(std::uint64_t job);
  /// As Hub::ended(); nothing if the hub is over already.
  void ended(std::uint64_t job, int rank);

  /// A communicator of all ranks: the first connects, later ones use that connection. `keep`: until
  /// the process ends, else until the last session is gone.
  std::unique_ptr<Session> open(const Membership::Settings& settings, bool keep,
                                std::chrono::milliseconds limit);
  /// open() of the job's other ranks throws it, now or when they come.
  void decline(const Membership::Settings& settings, bool keep, const Failure& why);

  /// The id that `make` makes; it is called once per process, for it may be collective over ranks.
  UniqueId onceExchanged(const std::function<UniqueId()>& make);

 private:
  ProcessJobs();
  ~ProcessJobs();

  /// A rank's way in; the process has no other one for it meanwhile.
  class Opening;
  struct Entry {
    std::weak_ptr<Membership> membership;
    std::shared_ptr<Membership> kept;
    bool opening = false;
  };

  /// None also when the process is ending: what a program has in statics may outlive this table.
  std::shared_ptr<Hub> find(std::uint64_t job) const;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Hub>> hubs_;     ///< by job
  std::map<std::pair<std::uint64_t, int>, Entry> entries_; ///< by job and rank
  std::mutex exchange_mutex_;
  std::optional<UniqueId> exchanged_;
};

} // namespace rondo::bootstrap
