// The hub: the rendezvous of a job's ranks, which supervises them afterwards.
//
// One process hosts the hub: the one that made the unique id, or rank 0. Every rank keeps one
// control connection to it. The hub collects exchanges, decides which failure of a communicator was
// the first, adds the late ranks to the texts of timeouts, and detects ranks that die (their
// connection ends without a farewell) or fall silent (no heartbeat for three heartbeat periods).
// When the hub's process ends while other ranks go on, another rank's process takes over the hub:
// hub_succession.cc if it ends in an orderly way, hub_quorum.cc if it dies.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/fork.h"
#include "bootstrap/ledger.h"
#include "net/connection.h"

namespace rondo::bootstrap {

class Standby;

class Hub {
 public:
  /// How a hub takes over a job whose hub ended.
  struct Succession {
    int host = -1;                ///< the rank whose process runs the new hub
    std::uint64_t job = 0;        ///< as the old hub's welcome named it
    std::vector<bool> expected;   ///< by rank: those that connect to the new hub
    std::vector<bool> present;    ///< by rank: those that have not ended for certain
    std::uint64_t generation = 0; ///< of the old hub
    /// Not null: the old hub died, and the ranks connect here. Then the new hub also finds out who
    /// else died, and serves only a majority.
    std::shared_ptr<Standby> standby = {};
    std::map<int, net::SocketAddress> standbys = {}; ///< of the present ranks
    std::set<int> maybe_moved = {};                  ///< see World
    /// Ranks notice at different times that a hub is silent. Others may notice it up to this much
    /// later than this rank.
    std::chrono::milliseconds spread{0};
    std::vector<Departed> departed = {}; ///< as far as the old hub has told
  };
  struct Settings {
    net::SocketAddress address; ///< port 0: any port
    net::Secret secret;
    /// The rendezvous number, which hellos must contain. Successive jobs at one address may have
    /// the same. Not Welcome::job, which is random and unique.
    std::uint64_t job = 0;
    int size = 0; ///< of the job; 0: unknown, set by the first complete set of ranks
    std::optional<Succession> succession;
  };

  /// Largest number of ranks of a job. Bounds the memory that a member can make the hub allocate.
  static constexpr int kMostRanks = 1 << 16;

  /// `over` is called on the loop thread when all ranks have left. Throws the errors of
  /// net::Acceptor.
  Hub(const Settings& settings, std::function<void()> over);
  /// Hands the control plane over to another rank's process. If that is not possible, sends a
  /// farewell, after which the ranks go on without a hub. Waits for a rank's answer for three
  /// heartbeats, but at least one second and at most ten. Any thread; on the loop thread it hands
  /// nothing over.
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  const net::SocketAddress& address() const { return address_; }
  /// If ranks outside this process go on, hands the control plane over to one of their processes.
  /// Returns true if another process has taken over and this hub has ended. Takes at most about one
  /// second. While ranks may still connect to this hub, it takes up to four seconds if the hub
  /// before it handed the control plane over, five if that hub died or fell silent, and a third of
  /// a heartbeat more if it fell silent. Any thread except the loop's.
  bool handOver();
  /// The process of a rank has ended. The hub handles what the rank had sent and then treats its
  /// connection as broken. Any thread.
  void ended(int rank);
  /// Another hub goes on without a rank of this process, so the ranks without a connection to this
  /// hub may follow the other one. On the loop thread.
  void mayBeReplaced();
  /// The ranks have been sent to this hub, which was opened for an offer. It also accepts ranks at
  /// `standby`: the old hub may have died before it told them the address. On the loop thread.
  void serve(const std::shared_ptr<Standby>& standby);
  /// A copy from the process that forked this one.
  bool elsewhere() const { return maker_.elsewhere(); }
  /// Ends the hub, unless all ranks of the job have joined. Returns whether it did. Any thread.
  bool withdraw();
  /// Newcomers that wait for a rank. Any thread.
  int waiting() const;
  /// Connections that were refused: strangers and wrong ranks.
  std::uint64_t rejected() const;

 private:
  class Impl;
  const base::Maker maker_;
  std::shared_ptr<Impl> impl_;
  net::SocketAddress address_;
};

/// The id of the communicator that contains all ranks of a job.
std::uint64_t worldId(std::uint64_t job, int size);

} // namespace rondo::bootstrap
