// The hub's records of members and communicators.
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
#include "net/connection.h"
#include "net/event_loop.h"

namespace rondo::bootstrap {

/// One rank's connection.
struct Member {
  int rank = 0; ///< of the job
  std::shared_ptr<Link> link;
  bool joined = false, gone = false, hosts_hub = false, silent = false;
  bool deaf = false;    ///< it is heard, but does not receive the hub's beats
  bool patient = false; ///< if silent or deaf, only a warning is logged
  std::chrono::milliseconds heartbeat{1000};
  Silence silence;
  std::uint64_t heard = 0;                           ///< last beat of the hub that it received
  Silence echo;                                      ///< since it last acknowledged a new beat
  std::map<std::uint64_t, std::vector<int>> rosters; ///< what it sent to a hub that takes over

  bool reachable() const { return joined && !gone; }
};

/// A rank that joins a communicator which grows, until all its ranks have met.
struct Applicant {
  std::shared_ptr<Link> link;
  int rank = -1; ///< of the job; -1: it waits for one
};

/// A rank's report of a failure, while all ranks are asked for their calls.
struct Suspicion {
  Failure failure;
  int reporter = 0;
  std::optional<Stall> stall;
};

struct Inquiry {
  std::optional<Suspicion> suspicion; ///< none: a rank leaves and waits for the comparison
  std::uint64_t target = 0;           ///< all ranks should enter this call before the limit
  std::uint64_t ask = 0;
  std::set<int> awaited; ///< ranks of the job
  bool over = false;     ///< the limit has passed
  net::EventLoop::Id limit = 0, again = 0;
};

/// One communicator.
struct Group {
  Group(std::uint64_t i, std::vector<int> m)
      : id(i), members(std::move(m)), ledger(static_cast<int>(members.size())) {
    for (std::size_t r = 0; r < members.size(); ++r) rank_of[members[r]] = static_cast<int>(r);
  }

  const std::uint64_t id;
  const std::vector<int> members; ///< ranks of the job, by rank of the communicator
  std::map<int, int> rank_of;     ///< the inverse
  Ledger ledger;

  std::optional<Inquiry> inquiry;
  std::vector<int> leaving; ///< ranks of the job that wait for the answer to their leave
  bool said = false;        ///< a leaving rank was told that calls differ; only the first logs it
  std::set<int> asking;     ///< ranks of the job that called shrink() without a list
  bool young = false;       ///< made by shrink(); no exchange of its ranks has completed
  std::set<int> described;  ///< ranks of the job that told a new hub of it

  // Used only until a hub that replaced a dead one knows that it has the majority.
  /// Ranks of the job that have started to open the group, but have no result of the last exchange;
  /// and the index of the exchange that each waits for.
  std::map<int, std::optional<std::uint64_t>> opening;
  bool has_result = false;   ///< some rank has the result of the last exchange
  bool by_agreement = false; ///< as in frames::Roster

  /// One rank reports that it lost another. The accusation is decided when news of that rank's
  /// death would have arrived. A rank that is said to be silent is asked for an answer.
  struct Accusation {
    int accuser = 0;
    Failure failure;
    net::EventLoop::Id timer = 0;
    std::uint64_t ask = 0; ///< 0: the accused was not asked
    bool answered = false;
    /// The accused rank has left the group, so the accuser probably saw it close its connections.
    bool hasLeft(const Ledger& whole) const {
      return failure.code == ErrorCode::peer_dead && whole.hasLeft(failure.culprit);
    }
  };
  std::optional<Accusation> accusation;
};

/// A question whether a rank's process lives.
struct Probe {
  std::unique_ptr<net::Dial> dial; ///< null: asks again at `next`
  base::Clock::time_point next{};
};

/// All ranks that claim the same size of the job.
struct World {
  int size = 0;
  bool complete = false;
  std::set<int> awaited; ///< ranks that have not yet connected to a hub that takes over
  std::map<int, std::shared_ptr<Member>> members;
  std::map<std::uint64_t, std::shared_ptr<Group>> groups;
  std::shared_ptr<Group> root;
  /// The rank that came first, and its Options::tls. A rank with another value is refused.
  struct First {
    int rank = 0;
    bool tls = false;
  };
  std::optional<First> first;

  std::map<int, net::SocketAddress> standbys; ///< by rank: where it listens as long as it lives
  std::set<int> gone;                         ///< ranks that have ended or left for certain
  std::map<int, Probe> probes;
  /// Ranks without a connection that count as living: their listeners did not refuse the last
  /// probe, or they may have moved.
  std::set<int> away;
  /// Ranks that may have continued with another hub while this process was stopped or cut off. They
  /// do not become `gone`, even if they have ended since.
  std::set<int> maybe_moved;
  std::set<int> told;       ///< ranks whose listener was told that this hub goes on without them
  std::set<int> candidates; ///< ranks whose addresses were sent to all
  bool changed = false;     ///< `gone` or `maybe_moved` has changed since it was sent
};

} // namespace rondo::bootstrap
