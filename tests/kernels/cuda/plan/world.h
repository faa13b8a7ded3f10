// Ranks with emulated GPUs: channels in ordinary memory, and a thread for each thread of a lane's
// block.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/launch.h"
#include "engine/bound_plan.h"
#include "engine/fabric.h"
#include "plan/plan.h"
#include "support/host_switch.h"

namespace rondo::test {

/// Zeroed memory with the alignment of a ring's parts.
class Zeroed {
 public:
  explicit Zeroed(std::size_t bytes);
  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_;
};

/// One rank's part of a call.
struct Part {
  plan::RankPlan plan;
  plan::CallShape shape;
  double factor = 1.0;
  std::int32_t divisor = 1;
  std::uint64_t signature = 0;
  std::function<void()> before; ///< called before each launch
  /// Called after each launch; returns what is wrong, or an empty string.
  std::function<std::string()> after;
  const void* input = nullptr;
  void* output = nullptr;
};

struct Call {
  std::string text;
  std::vector<Part> parts; ///< by rank
};

/// How the work of a launch is divided.
struct Blocks {
  std::uint32_t threads = 1; ///< in a block
  std::uint32_t copies = 1;  ///< of the plan
  bool lends = false;        ///< steps lend where they may
  std::size_t room = 0;      ///< size of a copy's window; 0: ranks have none
};

class World {
 public:
  World(int ranks, device::RingSize size, Blocks blocks = {});

  /// Launches every call `launches` times on all ranks, one after the other on each rank. Ranks
  /// wait for each other only in the channels. Returns the first complaint, or an empty string.
  std::string run(const std::vector<Call>& calls, int launches = 2);

  /// Time limit of a wait in a kernel.
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);

  device::Panel& panel(int rank) { return *ranks_[index(rank)].panel.as<device::Panel>(); }
  /// The rank's window, as its launches see it.
  device::Window windowOf(int rank);
  device::Halt& halt(int rank) { return *ranks_[index(rank)].halt.as<device::Halt>(); }
  /// Where the rank's last launch was when it ended early; "" if it did not.
  const std::string& reported(int rank) const { return ranks_[index(rank)].reported; }

  /// All rings so far, with both ends of each. For tests that look into their memory.
  struct Channel {
    Zeroed inbox, credit, sender, receiver;
  };
  std::map<plan::Channel, std::unique_ptr<Channel>>& channels() { return channels_; }

 private:
  struct Rank {
    std::unique_ptr<engine::Fabric> fabric;
    Zeroed halt{sizeof(device::Halt)}, panel{sizeof(device::Panel)};
    std::unique_ptr<Zeroed> window, meetings;
    std::string reported;
  };
  /// A call as one rank launches it; the same bytes each time, as in a captured graph.
  struct Launchable {
    engine::BoundPlan bound;
    device::Launch launch;
    std::vector<device::Ring> rings;
    std::unique_ptr<Zeroed> image, clocks, scratch;
    std::vector<std::unique_ptr<BlockMemory>> blocks; ///< of the launch
    LaneFunction block = nullptr;
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  Launchable prepare(const Call& call, int rank);
  std::string report(int rank, const engine::BoundPlan& bound);
  device::Ring ringOf(const plan::Channel& channel, bool sending);

  const device::RingSize size_;
  const Blocks blocks_;
  std::vector<Rank> ranks_;
  std::unique_ptr<HostSwitch> switch_; ///< connects their windows
  std::map<plan::Channel, std::unique_ptr<Channel>> channels_;
};

} // namespace rondo::test
