// Implements Device with the CUDA runtime: memory, streams, launches.
#include "device/cuda/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "device/cuda/current.h"
#include "device/cuda/shared_memory.h"
#include "device/cuda/streams.h"
#include "device/cuda/team.h"
#include "kernels/cuda/plan/launch.h"

namespace rondo::device {

namespace {

/// One in this many multiprocessors stays free of plan kernels: a rank that clears the memory of
/// its new channels needs one while all other ranks wait for it.
constexpr int kSparePart = 16;
/// A copy takes some microseconds. After kSpinning a waiting thread sleeps between polls.
constexpr std::chrono::microseconds kSpinning{200}, kNap{50};
/// Bytes that are copied at once between the device and pageable memory.
constexpr std::size_t kPassage = std::size_t{64} << 10;

class CudaMark final : public Mark {
 public:
  explicit CudaMark(std::shared_ptr<const Context> context) : context_(std::move(context)) {
    const Current current(*context_);
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cannot create an event");
  }
  ~CudaMark() override {
    onDevice(*context_, [this] { cudaEventDestroy(event_); });
  }
  CudaMark(const CudaMark&) = delete;
  CudaMark& operator=(const CudaMark&) = delete;

  void record(Stream stream) override {
    const Current current(*context_);
    check(cudaEventRecord(event_, static_cast<cudaStream_t>(stream)),
          "cannot record an event in the stream");
  }
  bool passed() override {
    const Current current(*context_);
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      cudaGetLastError(); // clears the status: the work is not finished, which is no error
      return false;
    }
    check(status, "work on the stream failed");
    return true;
  }
  cudaEvent_t event() const { return event_; }

 private:
  const std::shared_ptr<const Context> context_;
  cudaEvent_t event_ = nullptr;
};

class CudaFunction final : public LaunchFunction {
 public:
  CudaFunction(std::shared_ptr<const Context> context, const ProgramHeader& program)
      : context_(std::move(context)), function_(program) {}
  void launch(const Launch& launch, Stream stream) const override {
    const Current current(*context_);
    function_.launch(launch, stream);
  }

 private:
  const std::shared_ptr<const Context> context_;
  const kernels::cuda::PlanFunction function_;
};

class CudaBatchFunction final : public BatchFunction {
 public:
  explicit CudaBatchFunction(std::shared_ptr<const Context> context)
      : context_(std::move(context)) {}
  void launch(const Batch& batch, Stream stream) const override {
    const Current current(*context_);
    function_.launch(batch, stream);
  }

 private:
  const std::shared_ptr<const Context> context_;
  const kernels::cuda::PlanBatchFunction function_;
};

/// Returned host memory, by size. It is never freed, because cudaFreeHost() may wait for kernels.
class HostBlocks {
 public:
  static HostBlocks& ofProcess() {
    static HostBlocks* const all = new HostBlocks; // outlives every communicator
    return *all;
  }
  void* take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<void*>& of_size = free_[bytes];
      if (!of_size.empty()) {
        void* const memory = of_size.back();
        of_size.pop_back();
        return memory;
      }
    }
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
          "cannot allocate pinned host memory");
    return memory;
  }
  void give(void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    free_[bytes].push_back(memory);
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;
};

/// Memory of the device, from a memory pool and a stream of its own. These never wait for other
/// work; cudaFree() would wait for the kernels of ranks that wait for this rank.
class Pool {
 public:
  /// The pool that all ranks of the process share, because streams are scarce: see
  /// kernels/cuda/plan/PROOFS.md.
  static std::shared_ptr<const Pool> of(int device) {
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<const Pool>> pools;
    const std::lock_guard lock(mutex);
    std::shared_ptr<const Pool> pool = pools[device].lock();
    if (!pool) pools[device] = pool = std::make_shared<const Pool>(device);
    return pool;
  }

  explicit Pool(int device) : context_(Context::of(device)) {
    const Current current(*context_);
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device};
    check(cudaMemPoolCreate(&pool_, &properties), "cannot create a pool of device memory");
    std::uint64_t keep = ~std::uint64_t{0};
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
          "cannot configure the pool of device memory");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot create a stream");
    passage_ = static_cast<std::byte*>(HostBlocks::ofProcess().take(kPassage));
  }
  ~Pool() {
    onDevice(*context_, [this] {
      HostBlocks::ofProcess().give(passage_, kPassage);
      cudaStreamDestroy(stream_);
      cudaMemPoolDestroy(pool_);
    });
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void* allocate(std::size_t bytes) const {
    void* memory = nullptr;
    check(cudaMallocFromPoolAsync(&memory, bytes, pool_, stream_), "cannot allocate device memory");
    return memory;
  }
  /// Never throws: memory is freed by destructors, which may run after the device has failed.
  void free(void* memory) const {
    onDevice(*context_, [this, memory] { cudaFreeAsync(memory, stream_); });
  }
  void probe(void (*launch)(const Probe& probe, Stream stream), const Probe& probe) const {
    launch(probe, stream_);
  }
  void clear(void* memory, std::size_t bytes) const {
    check(cudaMemsetAsync(memory, 0, bytes, stream_), "cannot clear memory");
  }
  void copy(void* to, const void* from, std::size_t bytes) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cannot start a copy");
  }
  /// Pinned memory of kPassage bytes, used for copies between the device and pageable memory. The
  /// driver's own copies of pageable memory may wait for the stream, and could access it after
  /// their caller has given up.
  struct Passage {
    std::unique_lock<std::mutex> lock;
    std::byte* memory;
  };
  Passage passage() const { return {std::unique_lock(mutex_), passage_}; }
  /// Waits for all work on the pool's stream. False: it has not finished in time, and may run
  /// later.
  bool wait(std::chrono::milliseconds timeout) const {
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      const cudaError_t status = cudaStreamQuery(stream_);
      const bool running = status == cudaErrorNotReady;
      if (running) cudaGetLastError(); // clears the status
      else check(status, "the device failed");
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (!running || waited > timeout) {
        context_->setStuck(running);
        return !running;
      }
      if (waited < kSpinning) std::this_thread::yield();
      else std::this_thread::sleep_for(kNap);
    }
  }
  void letUse(int other) const {
    cudaMemAccessDesc access{};
    access.location = {cudaMemLocationTypeDevice, other};
    access.flags = cudaMemAccessFlagsProtReadWrite;
    check(cudaMemPoolSetAccess(pool_, &access, 1), "cannot give a peer access to device memory");
  }

 private:
  const std::shared_ptr<const Context> context_;
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
  mutable std::mutex mutex_; ///< protects passage_
  std::byte* passage_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int number, const DeviceIdentity& identity, int multiprocessors,
             std::chrono::milliseconds timeout)
      : number_(number),
        identity_(identity),
        multiprocessors_(multiprocessors),
        timeout_(timeout) {}

  const DeviceIdentity& identity() const override { return identity_; }
  /// A plan kernel is limited to one block per multiprocessor, see kernels/cuda/plan/instances.cuh.
  int residentBlocks() const override {
    return std::max(multiprocessors_ - multiprocessors_ / kSparePart, 1);
  }

  std::vector<DeviceIdentity> reach() const override {
    std::vector<DeviceIdentity> all = others(true);
    all.insert(all.begin(), identity_);
    return all;
  }
  std::vector<DeviceIdentity> beyond() const override { return others(false); }
  bool sees(const void* memory) const override {
    const Current current(*context_);
    cudaPointerAttributes about{};
    if (cudaPointerGetAttributes(&about, memory) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    if (about.type == cudaMemoryTypeDevice && about.device != number_) return false;
    return about.type != cudaMemoryTypeUnregistered && about.devicePointer != nullptr;
  }

  Memory allocate(std::size_t bytes) override {
    const Current current(*context_);
    Memory memory = allocateUncleared(bytes);
    clear(memory, bytes);
    return memory;
  }
  Memory allocateUncleared(std::size_t bytes) override {
    const Current current(*context_);
    return {static_cast<std::byte*>(pool_->allocate(bytes)),
            [pool = pool_](std::byte* at) { pool->free(at); }};
  }
  void use(const Device& peer) override {
    const auto& other = static_cast<const CudaDevice&>(peer);
    if (other.number_ == number_) return;
    const Current current(*other.context_);
    other.pool_->letUse(number_);
  }
  Memory allocateHost(std::size_t bytes) override {
    const Current current(*context_);
    void* const memory = HostBlocks::ofProcess().take(bytes);
    std::memset(memory, 0, bytes);
    return {static_cast<std::byte*>(memory), [bytes, context = context_](std::byte* at) {
              if (!context->stuck()) HostBlocks::ofProcess().give(at, bytes);
            }};
  }
  Memory mapHost(std::shared_ptr<void> memory, std::size_t bytes) override {
    const Current current(*context_);
    void* const at = memory.get();
    check(cudaHostRegister(at, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
          "cannot map shared memory for the device");
    const std::shared_ptr<void> registered(
        at, [context = context_, keep = std::move(memory)](void* host) {
          onDevice(*context, [host] { cudaHostUnregister(host); });
        });
    void* address = nullptr;
    check(cudaHostGetDevicePointer(&address, at, 0), "shared memory has no device address");
    return {registered, static_cast<std::byte*>(address)};
  }

  bool shares() const override { return sharesMemory(number_); }
  Shared allocateShared(std::size_t bytes) override {
    Shared made = makeShared(*context_, bytes);
    const Current current(*context_);
    clear(made.memory, bytes);
    return made;
  }
  Memory mapShared(int handle, std::size_t bytes) override {
    return mapSharedOn(*context_, handle, bytes);
  }

  bool multicasts() const override { return deviceMulticasts(number_); }
  std::unique_ptr<Team> makeTeam(int devices, std::size_t bytes) override {
    return makeTeamOn(context_, devices, bytes);
  }
  std::unique_ptr<Team> joinTeam(int handle, std::size_t bytes) override {
    return joinTeamOn(context_, handle, bytes);
  }

  void write(std::byte* to, const void* from, std::size_t bytes) override {
    const Current current(*context_);
    const Pool::Passage passage = openPassage();
    for (std::size_t at = 0; at < bytes; at += kPassage) {
      const std::size_t part = std::min(bytes - at, kPassage);
      std::memcpy(passage.memory, static_cast<const std::byte*>(from) + at, part);
      pool_->copy(to + at, passage.memory, part);
      await("finish a copy to it");
    }
  }
  void read(void* to, const std::byte* from, std::size_t bytes) override {
    const Current current(*context_);
    const Pool::Passage passage = openPassage();
    for (std::size_t at = 0; at < bytes; at += kPassage) {
      const std::size_t part = std::min(bytes - at, kPassage);
      pool_->copy(passage.memory, from + at, part);
      await("finish a copy from it");
      std::memcpy(static_cast<std::byte*>(to) + at, passage.memory, part);
    }
  }

  void write(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    const Current current(*context_);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)),
          "cannot start a copy");
  }

  void store(std::byte* to, const ProbeWords& words) override {
    storeBy(kernels::cuda::launchProbe, to, words);
  }
  ProbeWords load(const std::byte* from) override {
    return loadBy(kernels::cuda::launchProbe, from);
  }
  void storeToAll(std::byte* to, const ProbeWords& words) override {
    storeBy(kernels::cuda::launchSwitchProbe, to, words);
  }
  ProbeWords sumOfAll(const std::byte* from) override {
    return loadBy(kernels::cuda::launchSwitchProbe, from);
  }

  std::unique_ptr<Mark> mark() override { return std::make_unique<CudaMark>(context_); }
  void follow(Stream stream, const Mark& mark) override {
    const Current current(*context_);
    check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream),
                              static_cast<const CudaMark&>(mark).event(), 0),
          "cannot make a stream wait for another");
  }
  std::uint64_t capture(Stream stream) const override {
    const Current current(*context_);
    cudaStreamCaptureStatus status{};
    unsigned long long id = 0;
    check(cudaStreamGetCaptureInfo(static_cast<cudaStream_t>(stream), &status, &id),
          "cannot read the capture of the stream");
    return status == cudaStreamCaptureStatusNone ? 0 : id;
  }
  StreamTraits traits(Stream stream) const override {
    const Current current(*context_);
    return traitsOf(static_cast<cudaStream_t>(stream), multiprocessors_);
  }
  int multiprocessors() const override { return multiprocessors_; }
  std::unique_ptr<LaunchFunction> function(const ProgramHeader& program) override {
    const Current current(*context_);
    return std::make_unique<CudaFunction>(context_, program);
  }
  std::unique_ptr<BatchFunction> batchFunction() override {
    const Current current(*context_);
    return std::make_unique<CudaBatchFunction>(context_);
  }

 private:
  /// Waits for the pool's stream. `what` completes the text of the error.
  void await(const char* what) const {
    if (!pool_->wait(timeout_))
      throw Error(ErrorCode::timeout, "device " + std::to_string(number_) + " (" + identity_.place +
                                          ") did not " + what + " within " +
                                          std::to_string(timeout_.count()) + " ms");
  }
  /// An earlier copy that was given up may still be using the passage; waits for it.
  Pool::Passage openPassage() const {
    Pool::Passage passage = pool_->passage();
    if (context_->stuck()) await("finish an earlier copy");
    return passage;
  }
  void clear(const Memory& memory, std::size_t bytes) const {
    pool_->clear(memory.get(), bytes);
    await("clear new memory");
  }
  using LaunchProbe = void (*)(const Probe& probe, Stream stream);
  void storeBy(LaunchProbe launch, std::byte* to, const ProbeWords& words) {
    const Current current(*context_);
    Probe probe;
    std::copy(words.begin(), words.end(), probe.words);
    probe.to = reinterpret_cast<std::uint64_t*>(to);
    pool_->probe(launch, probe);
    await("finish the stores that test a link");
  }
  ProbeWords loadBy(LaunchProbe launch, const std::byte* from) {
    const Current current(*context_);
    const Memory seen = allocateHost(sizeof(ProbeWords));
    pool_->probe(launch, {.from = reinterpret_cast<const std::uint64_t*>(from),
                          .seen = reinterpret_cast<std::uint64_t*>(seen.get())});
    await("finish the loads that test a link");
    ProbeWords words;
    std::memcpy(words.data(), seen.get(), sizeof words);
    return words;
  }
  std::vector<DeviceIdentity> others(bool reached) const;

  const int number_;
  const DeviceIdentity identity_;
  const int multiprocessors_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<const Context> context_ = Context::of(number_);
  const std::shared_ptr<const Pool> pool_ = Pool::of(number_);
};

DeviceIdentity identify(int number, const cudaDeviceProp& properties) {
  DeviceIdentity identity;
  static_assert(sizeof properties.uuid.bytes == sizeof identity.uuid);
  std::memcpy(identity.uuid.data(), properties.uuid.bytes, identity.uuid.size());
  char bus[32] = "?";
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, number) != cudaSuccess) cudaGetLastError();
  identity.place = std::string(properties.name) + " at " + bus;
  return identity;
}

cudaDeviceProp propertiesOf(int number) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, number), "cannot read the device's properties");
  return properties;
}

/// The other devices of this process that this one can access (`reached`) or cannot.
std::vector<DeviceIdentity> CudaDevice::others(bool reached) const {
  std::vector<DeviceIdentity> all;
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "no devices");
  for (int other = 0; other < devices; ++other) {
    int possible = 0;
    if (other == number_) continue;
    if (cudaDeviceCanAccessPeer(&possible, number_, other) != cudaSuccess) cudaGetLastError();
    if ((possible != 0) == reached) all.push_back(identify(other, propertiesOf(other)));
  }
  return all;
}

void loadKernelsOnce(int device) {
  static std::mutex mutex;
  static std::set<int> loaded;
  const std::lock_guard lock(mutex);
  if (loaded.contains(device)) return;
  const Current current(*Context::of(device));
  kernels::cuda::loadPlanKernels();
  loaded.insert(device);
}

} // namespace

std::shared_ptr<Device> openCudaDevice(int number, std::chrono::milliseconds timeout) {
  const std::string what = "device " + std::to_string(number) + ": ";
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    cudaGetLastError();
    throw Error(ErrorCode::unsupported,
                what + "no GPU can be used (" + cudaGetErrorString(status) + ")");
  }
  if (number >= devices)
    throw Error(ErrorCode::unsupported,
                what + "this process has " + std::to_string(devices) + " GPU(s), numbered from 0");
  const cudaDeviceProp properties = propertiesOf(number);
  if (!properties.unifiedAddressing || !properties.canMapHostMemory)
    throw Error(ErrorCode::unsupported,
                what + properties.name + " does not share its addresses with the host");
  int pools = 0;
  check(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, number),
        "cannot read the device's attributes");
  if (!pools) throw Error(ErrorCode::unsupported, what + properties.name + " has no memory pools");
  loadKernelsOnce(number);
  return std::make_shared<CudaDevice>(number, identify(number, properties),
                                      properties.multiProcessorCount, timeout);
}

} // namespace rondo::device
