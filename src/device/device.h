// A GPU as the engine and the transports see it: memory, marks in streams, launches. No CUDA type
// appears here, so that host code needs no CUDA headers and tests can stand in for the GPU.
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

/// Freed with its last owner, when no kernel uses it any more.
using Memory = std::shared_ptr<std::byte>;

/// Which device it is, in every process of the machine.
struct DeviceIdentity {
  std::array<std::byte, 16> uuid{};
  std::string place; ///< for people: name and PCI address

  bool operator==(const DeviceIdentity& other) const { return uuid == other.uuid; }
};

/// What matters of a stream to kernels that wait for each other.
struct StreamTraits {
  bool blocking = false;   ///< it and the default stream wait for each other
  int multiprocessors = 0; ///< that its kernels run on
};

/// A place in a stream. One thread at a time.
class Mark {
 public:
  virtual ~Mark() = default;
  /// Puts it behind all that is on the stream now. In a capture it only serves follow() there.
  virtual void record(Stream stream) = 0;
  /// Whether all that stood before it has run. Throws Error(system) when something there failed.
  virtual bool passed() = 0;
};

/// The kernel of one device program. Any thread.
class LaunchFunction {
 public:
  virtual ~LaunchFunction() = default;
  /// One launch of ProgramHeader::blocks() blocks on `stream`: nothing allocated, nothing waited
  /// for; may be captured in a graph. All that `launch` points to must stay valid until it, and the
  /// graph's last replay, has run. Throws Error(unsupported) when the blocks are not resident at
  /// once, Error(system) if the launch fails.
  virtual void launch(const Launch& launch, Stream stream) const = 0;
};

/// The kernel of batches. Any thread.
class BatchFunction {
 public:
  virtual ~BatchFunction() = default;
  /// One launch of Batch::blocks() blocks, as LaunchFunction::launch(). What the jobs point to must
  /// stay valid, the batch need not.
  virtual void launch(const Batch& batch, Stream stream) const = 0;
};

/// Several devices whose memory a switch reaches all at once: it stores to all of it, and adds it
/// up. One device's part in it, which it has joined.
class Team {
 public:
  virtual ~Team() = default;
  /// A handle for others to join by, in whichever process. Of who made the team.
  virtual base::UniqueFd exported() const = 0;

  struct Windows {
    Memory own; ///< of this device; neither zeroed nor waited for
    Memory all; ///< reaches every device's, at the same offset; only kernels may use it
  };
  /// When all devices have joined, which nobody here waits for. Once.
  virtual Windows open() = 0;
};

/// One device of this process. Any thread may call its functions; none waits for other ranks, and
/// none touches the program's streams but where it says so. They throw Error(system) when the
/// device refuses, Error(timeout) when what they wait for does not happen.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceIdentity& identity() const = 0;
  /// Blocks of any plan kernel that it surely holds at once, while nothing else runs.
  virtual int residentBlocks() const = 0;
  /// The devices whose memory it reads and writes where it lies, itself first.
  virtual std::vector<DeviceIdentity> reach() const = 0;
  /// The other devices of this process, which it does not reach. Of one that is in neither list (as
  /// where each process is given one device to see) nobody knows but who tries.
  virtual std::vector<DeviceIdentity> beyond() const = 0;
  /// Whether it can read and write the memory at this address.
  virtual bool sees(const void* memory) const = 0;

  /// Zeroed memory of the device, aligned to kRingLine.
  virtual Memory allocate(std::size_t bytes) = 0;
  /// The same with any contents: nothing is waited for.
  virtual Memory allocateUncleared(std::size_t bytes) = 0;
  /// From now on this device may use what `peer`, a device of this process, allocates.
  virtual void use(const Device& peer) = 0;
  /// Zeroed host memory that host and all devices of this process see at the same address.
  virtual Memory allocateHost(std::size_t bytes) = 0;
  /// Host memory as this device sees it. Whole pages.
  virtual Memory mapHost(std::shared_ptr<void> memory, std::size_t bytes) = 0;

  /// Memory of the device that other processes can map: it lasts until all have let go of it.
  struct Shared {
    Memory memory;
    base::UniqueFd handle;
  };
  /// Whether the two functions below can do it.
  virtual bool shares() const = 0;
  virtual Shared allocateShared(std::size_t bytes) = 0;
  /// What allocateShared(bytes) made in another process, on this or a device within reach.
  virtual Memory mapShared(int handle, std::size_t bytes) = 0;

  /// Whether a switch may reach its memory: driver and device can do it, with whom shows when it
  /// is tried. If not, the functions below throw Error(unsupported).
  virtual bool multicasts() const = 0;
  /// A team of so many devices, with windows of `bytes` each.
  virtual std::unique_ptr<Team> makeTeam(int devices, std::size_t bytes) = 0;
  virtual std::unique_ptr<Team> joinTeam(int handle, std::size_t bytes) = 0;

  /// Between host memory and memory that the device sees; done on return.
  virtual void write(std::byte* to, const void* from, std::size_t bytes) = 0;
  virtual void read(void* to, const std::byte* from, std::size_t bytes) = 0;
  /// As write(), in front of what is put on the stream from now on: nothing is waited for. `from`
  /// is memory of allocateHost(), and stays as it is until then.
  virtual void write(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;

  /// As write() and read(), by the stores and loads of a kernel on this device, where the driver
  /// might copy in another way.
  virtual void store(std::byte* to, const ProbeWords& words) = 0;
  virtual ProbeWords load(const std::byte* from) = 0;
  /// By the switch: to all windows of a team, and the sums over them, as of std::uint64_t.
  virtual void storeToAll(std::byte* to, const ProbeWords& words) = 0;
  virtual ProbeWords sumOfAll(const std::byte* from) = 0;

  virtual std::unique_ptr<Mark> mark() = 0;
  /// What is put on the stream from now on runs after the mark.
  virtual void follow(Stream stream, const Mark& mark) = 0;
  /// By which the capture is known that the stream's work is recorded for, in place of being run;
  /// 0: it is run.
  virtual std::uint64_t capture(Stream stream) const = 0;
  /// Throws Error(invalid_argument) for a handle that means another stream on each thread.
  virtual StreamTraits traits(Stream stream) const = 0;
  virtual int multiprocessors() const = 0;
  /// Throws Error(unsupported) where no kernel serves the program.
  virtual std::unique_ptr<LaunchFunction> function(const ProgramHeader& program) = 0;
  /// Throws Error(unsupported) where there is no such kernel for the device.
  virtual std::unique_ptr<BatchFunction> batchFunction() = 0;
};

/// Device `number` of this process. Throws one line of Error(unsupported) that says what is
/// missing: the toolkit at build time, the driver, the device.
std::shared_ptr<Device> openDevice(int number);

/// For tests: from now on openDevice() asks `opener`; an empty one gives the GPUs back.
using DeviceOpener = std::function<std::shared_ptr<Device>(int number)>;
void replaceDevices(DeviceOpener opener);

} // namespace rondo::device
