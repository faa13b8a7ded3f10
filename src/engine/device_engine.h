// The CUDA engine: runs each collective, and the sends and receives of each group, as one launch of
// the plan kernel on the program's stream.
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
#include "engine/device_program.h"
#include "engine/device_proxy.h"
#include "engine/device_window.h"
#include "engine/engine.h"
#include "engine/launch_roster.h"
#include "engine/program_ring.h"
#include "engine/stream_users.h"
#include "plan/plan_cache.h"

namespace rondo::engine {

/// A bound plan as the device runs it. Its data on the device (clocks, rings, tables, arguments of
/// the launch) is copied there before a launch, and again if the data of other plans has replaced
/// it since.
struct DevicePlan {
  explicit DevicePlan(device::ProgramTables program) : tables(std::move(program)) {}

  const device::ProgramTables tables;
  std::unique_ptr<device::LaunchFunction> function;
  device::Launch launch;               ///< everything that is the same in all calls
  const device::Launch* job = nullptr; ///< only of a Send or Recv: the device's copy of `launch`
  std::weak_ptr<ProgramPlace> place;   ///< the device memory to which `launch` and `job` point
  std::shared_ptr<ProgramPlace> own;   ///< the same, once a graph refers to it
};

/// Launches run in the order of the calls. Each continues on the channels where the last one
/// stopped. So when the stream changes, the new stream first waits for the old one, also in a
/// capture. Graph replays are not visible to this class; the kernels detect a replay that overlaps
/// with a launch.
/// submit() launches a collective before it returns. flush() launches the sends and receives since
/// the last flush(). Both wait until the channels are connected, with the calls' deadline. No other
/// function blocks, except the destructor.
class DeviceEngine final : public Engine {
 public:
  struct Settings {
    int rank = 0, ranks = 1;
    DeviceChannel channel;
    device::Residency residency; ///< of the device on which a rank has the smallest share
    std::chrono::milliseconds timeout{};
    /// when nonzero, the wait for connections ends
    const std::atomic<std::uint32_t>* failed = nullptr;
    /// Another rank of this process on the same device, or -1. On the default stream, one of the
    /// two would wait for the other.
    int neighbour = -1;
    bool lends = false; ///< each rank's device sees all memory of all ranks; the same on all ranks
    std::shared_ptr<StreamUsers> users;   ///< of the ranks in this process; null: there is only one
    std::shared_ptr<LaunchRoster> roster; ///< of ranks that lend; null: they do not
    DeviceWindow window;
  };
  DeviceEngine(std::shared_ptr<device::Device> device, Fabric& fabric, const Settings& settings);
  /// Aborts running launches and waits for them, then waits until the network channels have sent
  /// their messages. The memory of a launch that does not end is never freed.
  ~DeviceEngine() override;

  /// Binds with the protocol and number of copies that all ranks choose. Throws Error(unsupported)
  /// if the device has too many ranks for the plan.
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
  void failAll(const Error& error) override;

 private:
  /// Throws Error(unsupported) if the stream may use only a part of the device.
  device::StreamTraits traitsOf(device::Stream stream) const;
  /// Throws if the device cannot access a buffer, or if two ranks would share a stream.
  void admitBuffers(const void* input, const void* output) const override;
  void admitFactor(const void* factor) const override;
  /// Launches the sends and receives that were submitted since the last call: a group is complete.
  void launchNoted() override;

  struct InFlight {
    Run* run = nullptr;
    std::shared_ptr<const ProgramPlace> place;
    std::uint32_t job = 0;                 ///< its number in the batch
    std::shared_ptr<device::Mark> mark;    ///< recorded after its launch
    device::Stream stream = nullptr;       ///< the stream of its launch
    bool captured = false;                 ///< part of a graph: nothing to wait for
    base::Clock::time_point first_since{}; ///< since when it has been the first in flight
  };
  /// A send or receive that waits for flush().
  struct Noted {
    Seat seat;
    Run* run = nullptr;
  };

  /// `copies`: upper bound; the same on all ranks.
  void prepare(BoundPlan& bound, const DeviceSteps& steps, device::Protocol protocol,
               std::uint32_t copies);
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
  /// Of `stream_`. If it was captured, calls read them again.
  mutable device::StreamTraits traits_{true, 0, false};
  /// The stream of the last launch that ran, and of the last captured launch, with its capture's
  /// id.
  device::Stream last_stream_ = nullptr, captured_stream_ = nullptr;
  std::uint64_t captured_in_ = 0;
  std::unique_ptr<device::Mark> captured_mark_; ///< recorded after the last captured launch
  std::shared_ptr<LaunchRoster::Seat> seat_;    ///< in the roster
  std::map<const End*, std::byte*> positions_;
  std::vector<device::Memory> slabs_; ///< memory of the positions
  ProgramRing programs_;
  device::Memory scratch_; ///< for the next launches
  std::size_t scratch_bytes_ = 0;
  std::deque<InFlight> runs_;
  BatchLayout layout_;
  DeviceProxy proxy_; ///< for the network channels
  std::vector<Noted> noted_;
  std::vector<device::Stream> noted_streams_;      ///< without duplicates
  std::unique_ptr<device::BatchFunction> batches_; ///< set by the first send or receive
  std::uint64_t numbers_ = 0;                      ///< last number given to a plan or batch
  std::vector<std::shared_ptr<device::Mark>> spare_marks_;
  std::vector<InFlight> given_up_; ///< launches and copies of failed runs, with their marks
  std::exception_ptr broken_;      ///< the error of the last launch
};

} // namespace rondo::engine
