// The interface to a GPU for the engine and the transports: memory, events (Mark), launches. No
// CUDA type appears here, so host code needs no CUDA headers and tests can replace the GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "device/probe.h"
#include "device/stream.h"

namespace rondo::device {

struct ProgramHeader;
struct Launch;
struct Batch;

/// Freed with its last owner, which must live until no kernel uses the memory any more.
using Memory = std::shared_ptr<std::byte>;

/// Identifies a device, in all processes of the machine.
struct DeviceIdentity {
  std::array<std::byte, 16> uuid{};
  std::string place; ///< for messages: name and PCI address

  bool operator==(const DeviceIdentity& other) const { return uuid == other.uuid; }
};

/// Properties of a stream that matter to kernels that wait for each other.
struct StreamTraits {
  bool blocking = false;   ///< it and the default stream wait for each other
  int multiprocessors = 0; ///< available to its kernels
  /// While a stream is captured CUDA tells nothing else. `blocking` is then false, and
  /// `multiprocessors` counts all of the device; read them again after the capture.
  bool captured = false;
};

/// A point in a stream (a CUDA event). One thread at a time.
class Mark {
 public:
  virtual ~Mark() = default;
  /// Records the mark after all work that is on the stream now. In a capture it may only be used
  /// with follow() in the same capture.
  virtual void record(Stream stream) = 0;
  /// Whether all work before the mark has run. Throws Error(system) if some of it failed.
  virtual bool passed() = 0;
};

/// The kernel of one device program. Any thread.
class LaunchFunction {
 public:
  virtual ~LaunchFunction() = default;
  /// Starts one launch of ProgramHeader::blocks() blocks on `stream`. Allocates nothing and does
  /// not wait; may be captured in a graph. Everything that `launch` points to must stay valid until
  /// the launch, or the last replay of the graph, has run. Its tables and rings may be read before
  /// earlier kernels of the stream have ended, so only the host and copies may write these, never a
  /// kernel. Throws Error(unsupported) if the blocks
  /// cannot all be resident at once, Error(system) if the launch fails.
  virtual void launch(const Launch& launch, Stream stream) const = 0;
};

/// The kernel of batches. Any thread.
class BatchFunction {
 public:
  virtual ~BatchFunction() = default;
  /// Starts one launch of Batch::blocks() blocks, as LaunchFunction::launch(). The data that the
  /// jobs point to must stay valid; the batch itself need not.
  virtual void launch(const Batch& batch, Stream stream) const = 0;
};

/// A group of devices whose memory a switch can access at once: it can store to the memory of all
/// devices, and add it up. An object is the membership of one device that has joined.
class Team {
 public:
  virtual ~Team() = default;
  /// A handle with which other devices can join, in any process. Only for the device that made the
  /// team.
  virtual base::UniqueFd exported() const = 0;

  struct Windows {
    Memory own; ///< of this device; neither zeroed nor waited for
    Memory all; ///< reaches the same offset of every device's window; only kernels may use it
  };
  /// Call once, after all devices have joined. Does not wait for them.
  virtual Windows open() = 0;
};

/// One device of this process. Any thread may call its functions. No function waits for other
/// ranks, and none uses the program's streams unless stated. They throw Error(system) if the device
/// reports an error, and Error(timeout) if a wait takes too long.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceIdentity& identity() const = 0;
  /// Number of blocks of any plan kernel that can be resident at once while nothing else runs.
  virtual int residentBlocks() const = 0;
  /// The devices whose memory it can read and write directly; the first one is the device itself.
  virtual std::vector<DeviceIdentity> reach() const = 0;
  /// The devices of this process whose memory it cannot access directly. For a device that
  /// is in neither list (for example if each process sees only one device) only a test transfer
  /// shows whether it can be accessed.
  virtual std::vector<DeviceIdentity> beyond() const = 0;
  /// Whether the device can read and write the memory at this address.
  virtual bool sees(const void* memory) const = 0;

  /// Zeroed memory of the device, aligned to kRingLine.
  virtual Memory allocate(std::size_t bytes) = 0;
  /// The same without zeroing; does not wait.
  virtual Memory allocateUncleared(std::size_t bytes) = 0;
  /// Lets this device access the memory that `peer`, a device of this process, has allocated and
  /// will allocate.
  virtual void use(const Device& peer) = 0;
  /// Zeroed host memory that the host and all devices of this process see at the same address.
  virtual Memory allocateHost(std::size_t bytes) = 0;
  /// Maps host memory for this device; the result has the address that the device uses. Whole
  /// pages.
  virtual Memory mapHost(std::shared_ptr<void> memory, std::size_t bytes) = 0;

  /// Memory of the device that other processes can map. It exists until all of them have released
  /// it.
  struct Shared {
    Memory memory;
    base::UniqueFd handle;
  };
  /// Whether the two functions below are supported.
  virtual bool shares() const = 0;
  virtual Shared allocateShared(std::size_t bytes) = 0;
  /// Maps memory that allocateShared(bytes) made in another process, on this device or one that
  /// this device can access.
  virtual Memory mapShared(int handle, std::size_t bytes) = 0;

  /// Whether driver and device support multicast. Whether the switch connects it with certain
  /// devices shows only when a team is made. If false, the functions below throw
  /// Error(unsupported).
  virtual bool multicasts() const = 0;
  /// Makes a team of `devices` devices with windows of `bytes` each, or joins one.
  virtual std::unique_ptr<Team> makeTeam(int devices, std::size_t bytes) = 0;
  virtual std::unique_ptr<Team> joinTeam(int handle, std::size_t bytes) = 0;

  /// Copies between host memory and memory that the device can access. The copy is complete on
  /// return.
  virtual void write(std::byte* to, const void* from, std::size_t bytes) = 0;
  virtual void read(void* to, const std::byte* from, std::size_t bytes) = 0;
  /// As write(), as part of `stream`: before everything that is put on the stream later. Does not
  /// wait. `from` is memory of allocateHost() and must not change until the copy has run.
  virtual void write(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;

  /// As write() and read(), but with the stores and loads of a kernel on this device: the driver
  /// may copy over another path.
  virtual void store(std::byte* to, const ProbeWords& words) = 0;
  virtual ProbeWords load(const std::byte* from) = 0;
  /// With the switch: stores to all windows of a team, and loads the sum over all windows, as
  /// std::uint64_t.
  virtual void storeToAll(std::byte* to, const ProbeWords& words) = 0;
  virtual ProbeWords sumOfAll(const std::byte* from) = 0;

  virtual std::unique_ptr<Mark> mark() = 0;
  /// Makes all later work of the stream run after the mark.
  virtual void follow(Stream stream, const Mark& mark) = 0;
  /// A number that identifies the capture if the stream is being captured; 0 if it is not.
  virtual std::uint64_t capture(Stream stream) const = 0;
  /// Throws Error(invalid_argument) for a handle that is a different stream on each thread. A
  /// capture of the stream goes on.
  virtual StreamTraits traits(Stream stream) const = 0;
  virtual int multiprocessors() const = 0;
  /// Throws Error(unsupported) if no kernel can run the program.
  virtual std::unique_ptr<LaunchFunction> function(const ProgramHeader& program) = 0;
  /// Throws Error(unsupported) if the device has no such kernel.
  virtual std::unique_ptr<BatchFunction> batchFunction() = 0;
};

/// Opens device `number` of this process. Throws Error(unsupported) with one line that names what
/// is missing: the toolkit at build time, the driver, or the device.
std::shared_ptr<Device> openDevice(int number);

/// For tests: from now on openDevice() calls `opener`. An empty one restores the GPUs.
using DeviceOpener = std::function<std::shared_ptr<Device>(int number)>;
void replaceDevices(DeviceOpener opener);

} // namespace rondo::device
