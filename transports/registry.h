// The list of all transports; each is one line of transports.def.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/board.h"
#include "device/device.h"
#include "net/connection.h"
#include "rondo/options.h"
#include "transports/transport.h"
#include "transports/tuning.h"

namespace rondo::transport {

/// The device of a rank's buffers, and the size of a channel there; the size is the same on all
/// ranks.
struct DeviceContext {
  std::shared_ptr<device::Device> device;
  ChannelSize size;
  std::size_t inbox_bytes = 0, credit_bytes = 0;
};

/// The arguments that a transport gets from its communicator.
struct Context {
  std::uint64_t communicator = 0;
  std::uint64_t job = 0;
  int rank = 0, size = 1;
  net::Secret secret;
  net::SocketAddress bind_address;    ///< address to which data listeners bind (port 0)
  std::shared_ptr<base::Board> board; ///< set if all ranks are threads of this process
  Options options;
  DeviceContext on; ///< if its device is null, buffers are in host memory
};

/// A kind of transport.
struct Kind {
  std::string_view name;
  std::string_view summary; ///< one line, for help texts
  bool between_processes;   ///< false: connects only ranks of the same process
  /// Null if this machine or this communicator cannot use the transport.
  std::unique_ptr<Transport> (*make)(const Context&);
  /// Why this build does not contain the transport; empty if it does. A null function: every build
  /// contains it. Options::transports may not name a transport that is missing.
  std::string (*missing)() = nullptr;
};

/// In order of preference: the first transport that reaches a peer is used.
std::span<const Kind> kinds();
/// Transports between devices: their ports are DeviceMemory. A communicator on devices uses these,
/// and after them the network transports of kinds(). Any other communicator uses kinds() only.
std::span<const Kind> deviceKinds();

} // namespace rondo::transport
