// The transports that exist. One line of transports.def each.
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

/// The device that a rank's buffers are on, and how large a channel is there: the same on all
/// ranks.
struct DeviceContext {
  std::shared_ptr<device::Device> device;
  ChannelSize size;
  std::size_t inbox_bytes = 0, credit_bytes = 0;
};

/// What a transport gets from the communicator that uses it.
struct Context {
  std::uint64_t communicator = 0;
  std::uint64_t job = 0;
  int rank = 0, size = 1;
  net::Secret secret;
  net::SocketAddress bind_address;    ///< where data listeners bind (port 0)
  std::shared_ptr<base::Board> board; ///< set when all ranks are threads of this process
  Options options;
  DeviceContext on; ///< empty: buffers are in host memory
};

/// A kind of transport.
struct Kind {
  std::string_view name;
  std::string_view summary; ///< one line, for help
  bool between_processes;   ///< false: reaches only ranks of the same process
  /// Null when this machine or this communicator cannot use it.
  std::unique_ptr<Transport> (*make)(const Context&);
  /// Why this build has not got it, empty: it has. Null: every build has it. Naming such a one in
  /// Options::transports is an error.
  std::string (*missing)() = nullptr;
};

/// In order of preference: the first that reaches a peer is taken.
std::span<const Kind> kinds();
/// Those between devices: their ports are DeviceMemory. A communicator uses these, and behind them
/// the carriers of the others; or the others.
std::span<const Kind> deviceKinds();

} // namespace rondo::transport
