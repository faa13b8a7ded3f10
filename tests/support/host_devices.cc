// Emulated devices: ordinary memory, and threads for streams and blocks.
#include "support/host_devices.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "base/memory_file.h"
#include "device/launch.h"
#include "rondo/error.h"
#include "support/host_probe.h"

namespace rondo::test {

// Streams -----------------------------------------------------------------------------------------

HostStream::HostStream() : thread_([this] { main(); }) {}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HostStream::push(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (captured_) return captured_->push_back(std::move(work));
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty() && !busy_; });
}

void HostStream::beginCapture() {
  const std::lock_guard lock(mutex_);
  captured_.emplace();
}
HostStream::Graph HostStream::endCapture() {
  const std::lock_guard lock(mutex_);
  Graph graph = std::move(*captured_);
  captured_.reset();
  return graph;
}
std::uint64_t HostStream::capture() {
  const std::lock_guard lock(mutex_);
  return captured_ ? reinterpret_cast<std::uintptr_t>(this) : 0;
}
void HostStream::replay(const Graph& graph) {
  for (const Work& work : graph) push(work);
}

void HostStream::main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    const Work work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

// Devices -----------------------------------------------------------------------------------------

struct HostDevices::State {
  explicit State(const Settings& of) : settings(of) {}

  const Settings settings;
  std::atomic<bool> fail_next{false};
  std::atomic<const void*> hidden{nullptr};
  std::atomic<std::uint64_t> launches{0};
  std::atomic<std::int64_t> allocations{0};

  /// The number of the device that owns the memory at an address, or -1.
  int ownerOf(const std::byte* at) {
    const std::lock_guard lock(mutex);
    const auto after = owners.upper_bound(at);
    if (after == owners.begin()) return -1;
    const auto& [begin, owner] = *std::prev(after);
    return at < begin + owner.bytes ? owner.device : -1;
  }
  struct Owner {
    std::size_t bytes = 0;
    int device = -1;
  };
  std::mutex mutex;
  std::map<const std::byte*, Owner> owners;
};

namespace {

using State = std::shared_ptr<HostDevices::State>;

constexpr int kPoison = 0xdd;

class HostMark final : public device::Mark {
 public:
  explicit HostMark(HostStream& default_stream) : default_(default_stream) {}
  void record(device::Stream stream) override {
    place_ = std::make_shared<std::atomic<bool>>(false);
    (stream ? *static_cast<HostStream*>(stream) : default_).push([place = place_] {
      place->store(true, std::memory_order_release);
    });
  }
  bool passed() override { return place_->load(std::memory_order_acquire); }

  std::shared_ptr<std::atomic<bool>> place() const { return place_; }

 private:
  HostStream& default_;
  std::shared_ptr<std::atomic<bool>> place_;
};

/// Throws the errors of a launch with this many blocks.
void refuse(std::uint32_t blocks, HostDevices::State& state) {
  if (blocks > static_cast<std::uint32_t>(state.settings.blocks))
    throw Error(ErrorCode::unsupported, "more blocks than the device holds");
  if (state.fail_next.exchange(false))
    throw Error(ErrorCode::system, "a plan was not launched: the test says so");
}

/// Runs run(block, its memory, thread) on a thread for each thread of each block.
template <class Run>
void runBlocks(std::uint32_t blocks, std::uint32_t places, HostDevices::State& state,
               const Run& run) {
  ++state.launches;
  const std::uint32_t threads = state.settings.threads;
  std::vector<std::unique_ptr<BlockMemory>> memory;
  for (std::uint32_t b = 0; b < blocks; ++b)
    memory.push_back(std::make_unique<BlockMemory>(threads, places));
  std::vector<std::jthread> others;
  for (std::uint32_t i = 1; i < blocks * threads; ++i)
    others.emplace_back([&, i] { run(i / threads, *memory[i / threads], i % threads); });
  if (blocks > 0) run(0, *memory[0], 0);
}

class HostFunction final : public device::LaunchFunction {
 public:
  HostFunction(const device::ProgramHeader& program, State state, HostStream& default_stream)
      : lane_(laneFunction(program)), state_(std::move(state)), default_(default_stream) {}

  void launch(const device::Launch& launch, device::Stream stream) const override {
    const std::uint32_t blocks = launch.program.blocks();
    refuse(blocks, *state_);
    (stream ? *static_cast<HostStream*>(stream) : default_)
        .push([launch, blocks, lane = lane_, state = state_] {
          runBlocks(blocks, launch.program.max_places, *state,
                    [&](auto&&... where) { lane(launch, where...); });
        });
  }

 private:
  const LaneFunction lane_;
  const State state_;
  HostStream& default_;
};

class HostBatchFunction final : public device::BatchFunction {
 public:
  HostBatchFunction(State state, HostStream& default_stream)
      : state_(std::move(state)), default_(default_stream) {}

  void launch(const device::Batch& batch, device::Stream stream) const override {
    refuse(batch.blocks(), *state_);
    (stream ? *static_cast<HostStream*>(stream) : default_).push([batch, state = state_] {
      runBlocks(batch.blocks(), device::kJobPlaces, *state,
                [&](auto&&... where) { runBatch(batch, where...); });
    });
  }

 private:
  const State state_;
  HostStream& default_;
};

/// The state that the members of a team share, found by the file that their handles refer to.
struct HostTeams {
  struct Shared {
    std::shared_ptr<std::vector<std::byte*>> windows = std::make_shared<std::vector<std::byte*>>();
    /// The members' windows, kept as long as a member uses them.
    std::vector<device::Memory> memory;
    std::unique_ptr<HostSwitch> link;
  };
  std::mutex mutex;
  std::map<unsigned long, std::weak_ptr<Shared>> teams;

  static HostTeams& get() {
    static HostTeams one;
    return one;
  }
  std::shared_ptr<Shared> of(int handle, std::size_t bytes) {
    struct stat about {};
    fstat(handle, &about);
    const std::lock_guard lock(mutex);
    std::shared_ptr<Shared> team = teams[about.st_ino].lock();
    if (team) return team;
    teams[about.st_ino] = team = std::make_shared<Shared>();
    team->link = std::make_unique<HostSwitch>(team->windows, bytes);
    return team;
  }
};

class HostTeam final : public device::Team {
 public:
  HostTeam(base::UniqueFd handle, device::Memory own, std::size_t bytes, bool reached)
      : handle_(std::move(handle)),
        own_(std::move(own)),
        shared_(HostTeams::get().of(handle_.get(), bytes)),
        reached_(reached) {}

  base::UniqueFd exported() const override {
    return base::UniqueFd(::fcntl(handle_.get(), F_DUPFD_CLOEXEC, 0));
  }
  Windows open() override {
    const std::lock_guard lock(HostTeams::get().mutex);
    if (reached_) shared_->windows->push_back(own_.get());
    shared_->memory.push_back(own_);
    return {own_, {shared_, shared_->link->all()}};
  }

 private:
  const base::UniqueFd handle_;
  const device::Memory own_;
  const std::shared_ptr<HostTeams::Shared> shared_;
  const bool reached_;
};

class HostDevice final : public device::Device {
 public:
  HostDevice(int number, State state)
      : state_(std::move(state)), number_(number), identity_(nameOf(number)) {}

  const device::DeviceIdentity& identity() const override { return identity_; }
  int residentBlocks() const override { return state_->settings.blocks; }
  std::vector<device::DeviceIdentity> reach() const override {
    std::vector<device::DeviceIdentity> all{identity_};
    if (state_->settings.see_each_other) addOthers(all);
    return all;
  }
  std::vector<device::DeviceIdentity> beyond() const override {
    std::vector<device::DeviceIdentity> all;
    if (!state_->settings.see_each_other) addOthers(all);
    return all;
  }
  bool sees(const void* memory) const override { return memory != state_->hidden.load(); }

  device::Memory allocate(std::size_t bytes) override { return zeroed(bytes, number_); }
  device::Memory allocateUncleared(std::size_t bytes) override {
    device::Memory memory = zeroed(bytes, number_);
    std::memset(memory.get(), kPoison, bytes);
    return memory;
  }
  void use(const device::Device&) override {}
  device::Memory allocateHost(std::size_t bytes) override { return zeroed(bytes, -1); }
  device::Memory mapHost(std::shared_ptr<void> memory, std::size_t) override {
    auto* at = static_cast<std::byte*>(memory.get());
    return {std::move(memory), at};
  }

  bool shares() const override { return state_->settings.shared_memory; }
  Shared allocateShared(std::size_t bytes) override {
    base::UniqueFd file = base::makeMemoryFile(bytes);
    return {mapHost(base::mapMemoryFile(file.get(), bytes, PROT_READ | PROT_WRITE), bytes),
            std::move(file)};
  }
  device::Memory mapShared(int handle, std::size_t bytes) override {
    base::checkMemoryFile(handle, bytes);
    return mapHost(base::mapMemoryFile(handle, bytes, PROT_READ | PROT_WRITE), bytes);
  }

  bool multicasts() const override { return state_->settings.multicasts; }
  std::unique_ptr<device::Team> makeTeam(int, std::size_t bytes) override {
    return teamOf(base::makeMemoryFile(1), bytes);
  }
  std::unique_ptr<device::Team> joinTeam(int handle, std::size_t bytes) override {
    return teamOf(base::UniqueFd(dup(handle)), bytes);
  }

  void write(std::byte* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void read(void* to, const std::byte* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }

  void write(device::Stream stream, std::byte* to, const std::byte* from,
             std::size_t bytes) override {
    (stream ? *static_cast<HostStream*>(stream) : default_).push([to, from, bytes] {
      std::memcpy(to, from, bytes);
    });
  }

  void store(std::byte* to, const device::ProbeWords& words) override {
    device::Probe probe;
    std::copy(words.begin(), words.end(), probe.words);
    probe.to = reinterpret_cast<std::uint64_t*>(to);
    const int owner = state_->ownerOf(to);
    if (!state_->settings.lose_writes || owner < 0 || owner == number_) runProbe(probe);
  }
  device::ProbeWords load(const std::byte* from) override {
    device::ProbeWords seen;
    runProbe({.from = reinterpret_cast<const std::uint64_t*>(from), .seen = seen.data()});
    return seen;
  }

  void storeToAll(std::byte* to, const device::ProbeWords& words) override {
    device::Probe probe;
    std::copy(words.begin(), words.end(), probe.words);
    probe.to = reinterpret_cast<std::uint64_t*>(to);
    runSwitchProbe(probe);
  }
  device::ProbeWords sumOfAll(const std::byte* from) override {
    device::ProbeWords seen;
    runSwitchProbe({.from = reinterpret_cast<const std::uint64_t*>(from), .seen = seen.data()});
    return seen;
  }

  std::unique_ptr<device::Mark> mark() override { return std::make_unique<HostMark>(default_); }
  void follow(device::Stream stream, const device::Mark& mark) override {
    const auto place = static_cast<const HostMark&>(mark).place();
    (stream ? *static_cast<HostStream*>(stream) : default_).push([place] {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!place->load(std::memory_order_acquire) && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    });
  }
  std::uint64_t capture(device::Stream stream) const override {
    return stream ? static_cast<HostStream*>(stream)->capture() : 0;
  }
  device::StreamTraits traits(device::Stream stream) const override {
    return {stream == nullptr, multiprocessors(), false};
  }
  int multiprocessors() const override { return state_->settings.blocks; }
  std::unique_ptr<device::LaunchFunction> function(const device::ProgramHeader& program) override {
    return std::make_unique<HostFunction>(program, state_, default_);
  }
  std::unique_ptr<device::BatchFunction> batchFunction() override {
    return std::make_unique<HostBatchFunction>(state_, default_);
  }

 private:
  std::unique_ptr<device::Team> teamOf(base::UniqueFd handle, std::size_t bytes) {
    return std::make_unique<HostTeam>(std::move(handle), zeroed(bytes, number_), bytes,
                                      number_ != state_->settings.out_of_switch);
  }
  void addOthers(std::vector<device::DeviceIdentity>& all) const {
    for (int other = 0; other < state_->settings.devices; ++other)
      if (!(nameOf(other) == identity_)) all.push_back(nameOf(other));
  }
  device::Memory zeroed(std::size_t bytes, int owner) {
    constexpr std::align_val_t kAlign{device::kRingLine};
    auto* memory = static_cast<std::byte*>(::operator new(bytes, kAlign));
    std::memset(memory, 0, bytes);
    ++state_->allocations;
    const std::lock_guard lock(state_->mutex);
    state_->owners[memory] = {bytes, owner};
    return {memory, [state = state_, bytes](std::byte* at) {
              std::memset(at, kPoison, bytes); // so that a later read is noticed
              {
                const std::lock_guard freeing(state->mutex);
                state->owners.erase(at);
              }
              ::operator delete(at, kAlign);
              --state->allocations;
            }};
  }
  device::DeviceIdentity nameOf(int number) const {
    device::DeviceIdentity identity;
    number += state_->settings.first;
    identity.uuid[0] = static_cast<std::byte>(number + 1);
    identity.place = "host device " + std::to_string(number);
    return identity;
  }

  const State state_;
  const int number_;
  const device::DeviceIdentity identity_;
  HostStream default_;
};

} // namespace

HostDevices::HostDevices(const Settings& settings) : state_(std::make_shared<State>(settings)) {
  std::vector<std::shared_ptr<device::Device>> all;
  for (int number = 0; number < settings.devices; ++number)
    all.push_back(std::make_shared<HostDevice>(number, state_));
  device::replaceDevices([all](int number) {
    if (number >= static_cast<int>(all.size()))
      throw Error(ErrorCode::unsupported,
                  "device " + std::to_string(number) + ": there are " + std::to_string(all.size()));
    return all[static_cast<std::size_t>(number)];
  });
}
HostDevices::~HostDevices() { device::replaceDevices({}); }

void HostDevices::failNextLaunch() { state_->fail_next = true; }
void HostDevices::hide(const void* memory) { state_->hidden = memory; }
std::uint64_t HostDevices::launches() const { return state_->launches; }
std::int64_t HostDevices::allocations() const { return state_->allocations; }

} // namespace rondo::test
