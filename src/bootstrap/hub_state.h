// What the hub remembers of members and communicators.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "bootstrap/heartbeat.h"
#include "bootstrap/ledger.h"
#include "bootstrap/link.h"
#include "net/event_loop.h"

namespace rondo::bootstrap {

/// One rank's connection.
struct Member {
  int rank = 0; ///< of the job
  std::shared_ptr<Link> link;
  bool joined = false, gone = false, hosts_hub = false, silent = false;
  std::chrono::milliseconds heartbeat{1000};
  Silence silence;

  bool reachable() const { return joined && !gone; }
};

/// One communicator.
struct Group {
  Group(std::uint64_t i, std::vector<int> m)
      : id(i), members(std::move(m)), ledger(static_cast<int>(members.size())) {
    for (std::size_t r = 0; r < members.size(); ++r) rank_of[members[r]] = static_cast<int>(r);
  }

  const std::uint64_t id;
  const std::vector<int> members; ///< job's ranks, by the communicator's
  std::map<int, int> rank_of;     ///< the inverse
  Ledger ledger;

  /// A timeout that waits for the ranks' counters.
  struct Timeout {
    Failure failure;
    int reporter = 0;
    std::optional<Stall> stall;
    std::uint64_t ask = 0;
    std::set<int> awaited; ///< job's ranks
    net::EventLoop::Id timer = 0;
  };
  std::optional<Timeout> timeout;
};

/// All ranks that claim one size of the job.
struct World {
  int size = 0;
  bool complete = false;
  std::map<int, std::shared_ptr<Member>> members;
  std::map<std::uint64_t, std::shared_ptr<Group>> groups;
  std::shared_ptr<Group> root;
};

} // namespace rondo::bootstrap
