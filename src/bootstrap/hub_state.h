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
  bool deaf = false;    ///< heard, but it does not hear the hub
  bool patient = false; ///< silent or deaf, it is only warned of
  std::chrono::milliseconds heartbeat{1000};
  Silence silence;
  std::uint64_t heard = 0;                           ///< the last beat that it heard
  Silence echo;                                      ///< since it last said that it heard a new one
  std::map<std::uint64_t, std::vector<int>> rosters; ///< what it told a hub that takes over

  bool reachable() const { return joined && !gone; }
};

/// What a rank complained of, until all ranks have said what they called.
struct Suspicion {
  Failure failure;
  int reporter = 0;
  std::optional<Stall> stall;
};

struct Inquiry {
  std::optional<Suspicion> suspicion; ///< none: somebody leaves, and wants to know
  std::uint64_t target = 0; ///< the call that all ranks should have come to, if they come in time
  std::uint64_t ask = 0;
  std::set<int> awaited; ///< job's ranks
  bool over = false;     ///< its time is
  net::EventLoop::Id limit = 0, again = 0;
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

  std::optional<Inquiry> inquiry;
  std::vector<int> leaving; ///< job's ranks that wait for the answer to their leave
  bool said = false;        ///< a rank that left has heard that calls differ

  /// A rank that lost another, until that one's death must be known. One that is only said to be
  /// silent is asked whether it lives.
  struct Accusation {
    int accuser = 0;
    Failure failure;
    net::EventLoop::Id timer = 0;
    std::uint64_t ask = 0; ///< 0: nobody was asked
    bool answered = false;
  };
  std::optional<Accusation> accusation;
};

/// All ranks that claim one size of the job.
struct World {
  int size = 0;
  bool complete = false;
  std::set<int> awaited; ///< ranks that have yet to come to a hub that takes over
  std::map<int, std::shared_ptr<Member>> members;
  std::map<std::uint64_t, std::shared_ptr<Group>> groups;
  std::shared_ptr<Group> root;
};

} // namespace rondo::bootstrap
