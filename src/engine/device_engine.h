// The CUDA engine: runs bound plans as launches of the plan kernel on the program's stream, one per
// collective, one for the sends and receives of a group.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/launch.h"
#include "device/residency.h"
#include "engine/batch_layout.h"
#include "engine/device_channel.h"
#include "engine/device_proxy.h"
#include "engine/device_window.h"
#include "engine/engine.h"
#include "engine/launch_roster.h"
#include "engine/program_ring.h"
#include "engine/stream_users.h"
#include "plan/plan_cache.h"

namespace rondo::engine {

/// A bound plan as the device runs it. What stands there for it (clocks, rings, tables, job) is
/// put there when it is launched, and again when others took its place meanwhile.
struct DevicePlan {
  explicit DevicePlan(device::ProgramTables program) : tables(std::move(program)) {}

  const device::ProgramTables tables;
  std::unique_ptr<device::LaunchFunction> function;
  device::Launch launch;               ///< all but what differs from call to call
  const device::Launch* job = nullptr; ///< of a send or receive: `launch`, in the place
  std::weak_ptr<ProgramPlace> place;   ///< of which the addresses are
  std::shared_ptr<ProgramPlace> own;   ///< the same, as soon as a graph refers to it
};

/// Launches run in the order of the calls; each uses the channels where the last one left them, so
/// when the stream changes the new one first waits for the old one, in a capture as well. What no
/// call tells of (replays) the kernels find out. submit() launches a collective
/// before it returns, flush() the sends and receives since the last one, and to that end both wait
/// until the channels are connected, with their deadline; nothing else here blocks, but for the
/// destructor.
class DeviceEngine final : public Engine {
 public:
  struct Settings {
    int rank = 0, ranks = 1;
    DeviceChannel channel;
    device::Residency residency; ///< of the device where a rank has the smallest share
    std::chrono::milliseconds timeout{};
    const std::atomic<std::uint32_t>* failed = nullptr; ///< ends the wait for a connection
    /// Another rank of this process on the same device, or -1: the default stream would make the
    /// one wait behind the other.
    int neighbour = -1;
    bool lends = false; ///< each rank's device sees all memory of all ranks; the same on all ranks
    std::shared_ptr<StreamUsers> users;   ///< of the ranks in this process; null: there is one
    std::shared_ptr<LaunchRoster> roster; ///< of ranks that lend; null: they do not
    DeviceWindow window;
  };
  DeviceEngine(std::shared_ptr<device::Device> device, Fabric& fabric, const Settings& settings);
  /// Ends what is still running, and waits for it; then until the streams have what was sent. What
  /// a launch uses that does not end is never given back.
  ~DeviceEngine() override;

  /// With protocol and number of copies as all ranks choose them. Throws Error(unsupported) where
  /// the ranks on a device are too many for the plan.
  BoundPlan bind(plan::Planned& planned, const plan::CallShape& shape) override;
  BoundPlan bindMessage(const plan::RankPlan& plan, const plan::CallShape& shape,
                        std::uint64_t signature) override;

  void setStream(Stream stream) override;
  void requireHostBuffers(const char* function) const override;
  bool arrived(int /*peer*/) override {
    requireHostBuffers("arrived");
    return false;
  }
  void submit(Run& run, int queue) override;
  bool progress() override;
  std::size_t scratchBytes() const override { return scratch_bytes_; }
  std::vector<Standing> standing(base::Clock::time_point now,
                                 base::Clock::duration at_least) override;
  const Run* findRun(const std::function<bool(const Run&)>& wanted) const override;
  Position position(const Run& run) override;
  void failAll(const std::exception_ptr& error) override;

 private:
  /// Throws for buffers that the device does not see, and for a stream that two ranks would share.
  void admitBuffers(const void* input, const void* output) const override;
  void admitFactor(const void* factor) const override;
  /// Launches the sends and receives that were submitted since: a group is complete.
  void launchNoted() override;

  struct InFlight {
    Run* run = nullptr;
    std::shared_ptr<const ProgramPlace> place;
    std::uint32_t job = 0;                 ///< its number in the batch
    std::shared_ptr<device::Mark> mark;    ///< behind its launch
    device::Stream stream = nullptr;       ///< where it is
    bool captured = false;                 ///< there is nothing to wait for
    base::Clock::time_point first_since{}; ///< it is the first in flight since then
  };
  /// A send or receive that waits for flush().
  struct Noted {
    Seat seat;
    Run* run = nullptr;
  };

  /// `copies`: at most; the same on all ranks.
  void prepare(BoundPlan& bound, device::Protocol protocol, std::uint32_t copies);
  std::shared_ptr<const ProgramPlace> place(BoundPlan& bound, bool for_good);
  void writeRings(const BoundPlan& plan, std::byte* to);
  device::Memory scratch(std::size_t bytes);
  void putInFlight(Run& run);
  void launch(const Run& run);
  std::vector<Noted>::const_iterator launchBatch(std::vector<Noted>::const_iterator at);
  template <class Put>
  void enqueue(std::size_t first, const Put& put);
  void giveUpCopies(std::size_t first);
  void orderStreams(bool before);
  void followLast(std::uint64_t capture);
  bool awaitChannels(std::size_t first);
  bool connect(BoundPlan& plan);
  void endLaunches();
  void keepMemory() const;
  std::byte* positionsOf(const End& end);
  void finishFirst();
  device::Panel& panel() const;
  [[noreturn]] void throwReport();
  void abortLaunches();
  void endOthers();
  void followOther(device::Stream stream, const device::Mark& last);

  const std::shared_ptr<device::Device> device_;
  Fabric& fabric_;
  const Settings settings_;
  const device::Memory panel_, halt_;
  device::Stream stream_ = nullptr;
  bool blocking_ = true; ///< StreamTraits::blocking of the stream
  /// The last launch that was run, and the last one in a capture: where, and which capture.
  device::Stream last_stream_ = nullptr, captured_stream_ = nullptr;
  std::uint64_t captured_in_ = 0;
  std::unique_ptr<device::Mark> captured_mark_; ///< behind the latter
  std::shared_ptr<LaunchRoster::Seat> seat_;    ///< of the roster
  std::map<const End*, std::byte*> positions_;
  std::vector<device::Memory> slabs_; ///< where they are
  ProgramRing programs_;
  device::Memory scratch_; ///< of the launches from now on
  std::size_t scratch_bytes_ = 0;
  std::deque<InFlight> runs_;
  BatchLayout layout_;
  DeviceProxy proxy_; ///< of the channels that are streams
  std::vector<Noted> noted_;
  std::vector<device::Stream> noted_streams_;      ///< each once
  std::unique_ptr<device::BatchFunction> batches_; ///< from the first send or receive on
  std::uint64_t numbers_ = 0;                      ///< given to plans and batches so far
  std::vector<std::shared_ptr<device::Mark>> spare_marks_;
  std::vector<InFlight> given_up_; ///< launches and copies of failed runs, by their marks
  std::exception_ptr broken_;      ///< why the last launch did not happen
};

} // namespace rondo::engine
