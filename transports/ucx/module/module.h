// The interface between the library and the module that is linked with UCX: types of the standard
// library, and no exceptions, so that either can be without the other.
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
/// Its one symbol, a StartFunction. The number counts versions of this file.
inline constexpr const char* kModuleSymbol = "rondo_ucx_module_1";

/// What UCX is asked for. Contexts are shared by all workers that ask for the same.
struct Settings {
  std::string transports; ///< UCX_TLS, UCX_NET_DEVICES; empty: as UCX itself finds it
  std::string devices;
  /// How often a silent peer is looked at. Set unless UCX's own variables say otherwise.
  std::chrono::milliseconds heartbeat{1000};
  auto operator<=>(const Settings&) const = default;
};

/// Memory of a message, in pieces. The same as UCX's own type.
struct Piece {
  void* data = nullptr;
  std::size_t size = 0;
};

/// A send or a fetch. It stays where it is, and so do header and pieces, until it is not pending.
struct Operation {
  bool pending = false;
  const char* error = nullptr; ///< null: well done, once it is not pending
};

/// A message that has come.
struct Arrival {
  std::span<const std::byte> header; ///< only valid in the call
  void* data = nullptr;              ///< the body; of an announced one only what fetch() wants
  std::size_t bytes = 0;             ///< of the body
  bool announced = false;            ///< the body is still with the sender
  bool keepable = false;             ///< may be kept beyond the call
};

/// What a worker tells. Called inside its functions, on their thread.
class Events {
 public:
  virtual ~Events() = default;
  /// True: `data` is kept, for one fetch() or drop(). Else an announced body is never sent.
  virtual bool arrived(const Arrival& arrival) noexcept = 0;
  /// The connection to a peer is over. Once per connection.
  virtual void broke(int peer, bool silent, const char* why) noexcept = 0;
};

/// A connection to another worker. Belongs to the worker that made it.
class Endpoint;

/// A worker of UCX. One thread at a time.
class UcpWorker {
 public:
  /// Cuts the connections that have not ended: what is pending is not touched any more.
  virtual ~UcpWorker() = default;
  virtual std::span<const std::byte> address() const noexcept = 0;
  /// True if anything moved.
  virtual bool progress() noexcept = 0;
  /// Null, and `why`, when UCX refuses. The address must be one of UCX's: others may crash it.
  virtual Endpoint* connect(int peer, std::span<const std::byte> address, std::string& why) = 0;
  /// `announce`: the body travels when the peer fetches it, from and into the callers' memory. Else
  /// through UCX's, on either side.
  virtual void send(Endpoint& to, std::span<const std::byte> header, std::span<const Piece> body,
                    bool announce, Operation& operation) noexcept = 0;
  virtual void fetch(void* data, std::span<const Piece> body, Operation& operation) noexcept = 0;
  virtual void drop(void* data) noexcept = 0;
  /// Begins to end all connections, in good order: what was taken over leaves first. Afterwards
  /// only progress() and closed().
  virtual void close() noexcept = 0;
  /// Whether all connections have ended.
  virtual bool closed() noexcept = 0;
};

class Module {
 public:
  virtual ~Module() = default;
  /// "1.13.1". Addresses of another release are not understood for sure.
  virtual std::string version() const = 0;
  /// Null, and `why`, when UCX cannot do it.
  virtual std::unique_ptr<UcpWorker> makeWorker(const Settings& settings, Events& events,
                                                std::string& why) = 0;
  /// Names what UCX would use that is faster than TCP between machines; empty: nothing.
  virtual std::string fabric(const Settings& settings) = 0;
};

/// The module, which lives as long as the process. UCX's messages go to `log`, on any thread.
using StartFunction = Module* (*)(void (*log)(bool serious, const char* text));

} // namespace rondo::transport::ucx
