// The interface between the library and the module that is linked with UCX. It uses only types of
// the standard library and no exceptions, so that each can be built without the other.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace rondo::transport::ucx {

inline constexpr const char* kModuleFile = "librondo_ucx.so";
/// Its only symbol, a StartFunction. The number is the version of this file.
inline constexpr const char* kModuleSymbol = "rondo_ucx_module_1";

/// The configuration of UCX. Workers with the same settings share a context.
struct Settings {
  std::string transports; ///< UCX_TLS, UCX_NET_DEVICES; empty: UCX chooses
  std::string devices;
  /// How often a silent peer is probed. Used unless UCX's own variables are set.
  std::chrono::milliseconds heartbeat{1000};
  auto operator<=>(const Settings&) const = default;
};

/// A piece of a message's memory. Has the same layout as UCX's type.
struct Piece {
  void* data = nullptr;
  std::size_t size = 0;
};

/// A send or a fetch. The object, header and pieces must not move or change while it is pending.
struct Operation {
  bool pending = false;
  const char* error = nullptr; ///< null: it succeeded, once it is not pending
};

/// A message that has arrived.
struct Arrival {
  std::span<const std::byte> header; ///< only valid during the call
  void* data = nullptr;              ///< the body; if announced, only a handle for fetch()
  std::size_t bytes = 0;             ///< size of the body
  bool announced = false;            ///< the body is still with the sender
  bool keepable = false;             ///< may be kept after the call
};

/// Callbacks of a worker. Called inside its functions, on their thread.
class Events {
 public:
  virtual ~Events() = default;
  /// True: `data` is kept, for one fetch() or drop(). False: the body of an announced message is
  /// never sent.
  virtual bool arrived(const Arrival& arrival) noexcept = 0;
  /// The connection to a peer has ended. Called once for each connection.
  virtual void broke(int peer, bool silent, const char* why) noexcept = 0;
};

/// A connection to another worker. Belongs to the worker that made it.
class Endpoint;

/// A worker of UCX. One thread at a time.
class UcpWorker {
 public:
  /// Cuts the connections that have not ended. Pending memory is not accessed afterwards.
  virtual ~UcpWorker() = default;
  virtual std::span<const std::byte> address() const noexcept = 0;
  /// True if anything moved.
  virtual bool progress() noexcept = 0;
  /// On failure returns null and sets `why`. The address must be one that UCX made: others may
  /// crash it.
  virtual Endpoint* connect(int peer, std::span<const std::byte> address, std::string& why) = 0;
  /// `announce`: the body is sent when the peer fetches it, directly between the callers' memory.
  /// Otherwise it goes through UCX's memory on both sides.
  virtual void send(Endpoint& to, std::span<const std::byte> header, std::span<const Piece> body,
                    bool announce, Operation& operation) noexcept = 0;
  virtual void fetch(void* data, std::span<const Piece> body, Operation& operation) noexcept = 0;
  virtual void drop(void* data) noexcept = 0;
  /// Starts to close all connections in an orderly way: what UCX has taken is sent first. After
  /// this only progress() and closed() may be called.
  virtual void close() noexcept = 0;
  /// Whether all connections have ended.
  virtual bool closed() noexcept = 0;
};

class Module {
 public:
  virtual ~Module() = default;
  /// For example "1.13.1". Another release may not understand this release's addresses.
  virtual std::string version() const = 0;
  /// On failure returns null and sets `why`.
  virtual std::unique_ptr<UcpWorker> makeWorker(const Settings& settings, Events& events,
                                                std::string& why) = 0;
  /// The transport faster than TCP that UCX would use between machines; empty: none.
  virtual std::string fabric(const Settings& settings) = 0;
};

/// Starts the module, which lives as long as the process. UCX's messages go to `log`, on any
/// thread.
using StartFunction = Module* (*)(void (*log)(bool serious, const char* text));

} // namespace rondo::transport::ucx
