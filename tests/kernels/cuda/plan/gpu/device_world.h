// Ranks that share one GPU, each with a stream of its own: what ../world.h is on the host.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/fabric.h"
#include "kernels/cuda/plan/launch.h"
#include "plan/plan.h"
#include "support/collective_case.h"

namespace rondo::test {

/// Zeroed memory of the device, or of the host where both see it.
class GpuMemory {
 public:
  enum class Where { device, host };
  explicit GpuMemory(std::size_t bytes, Where where = Where::device);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  const Where where_;
};

class DeviceWorld {
 public:
  DeviceWorld(int ranks, device::RingSize size, std::uint32_t copies);
  ~DeviceWorld();

  /// Launches the collective on all ranks, `launches` times one after the other, as launches or as
  /// replays of a graph that was captured once; checks the last result. What is wrong, or nothing.
  std::string run(const plan::Algorithm& algorithm, const CollectiveCase& one, int launches,
                  bool replayed);

  std::chrono::nanoseconds timeout = std::chrono::seconds(20);
  /// Of each rank's launches, as written by the kernel.
  const device::Panel& panel(int rank) const;
  void abort(int rank);
  /// Only this rank launches.
  int alone = -1;

 private:
  struct Rank;
  struct Launchable;
  std::unique_ptr<Launchable> prepare(const plan::Algorithm& algorithm, const CollectiveCase& one,
                                      int rank);
  device::Ring ringOf(const plan::Channel& channel, bool sending);

  struct Channel {
    GpuMemory inbox, credit, sender, receiver;
  };
  const device::RingSize size_;
  const std::uint32_t copies_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<plan::Channel, std::unique_ptr<Channel>> channels_;
};

} // namespace rondo::test
