// Callbacks at the begin and end of calls, for tools that measure or log.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "rondo/collectives.h"
#include "rondo/export.h"
#include "rondo/types.h"

namespace rondo {

/// A call of one rank, at its begin or end. Both have the same `communicator`, `rank` and `number`;
/// texts are valid during the callback only.
struct CallEvent {
  std::uint64_t communicator = 0; ///< equal on all ranks, unique within the job
  int rank = 0, size = 0;         ///< of the communicator
  std::uint64_t number = 0;       ///< counts all calls of the rank on the communicator, from 1
  /// Collectives are counted together, so the number is equal on all ranks; error texts print it
  /// ("AllReduce #3"). Messages are counted for each peer and direction; error texts print the
  /// number modulo 256.
  std::uint64_t sequence = 0;
  std::string_view title; ///< "AllReduce", "Send", "AllGatherv", ...
  Collective collective = Collective::barrier;
  bool sending = false; ///< Send, not Recv
  bool uneven = false;  ///< a v-form
  /// Elements, as the call names them. ReduceScatterv and AllGatherv: of all blocks together. Other
  /// v-forms: 0.
  std::size_t count = 0;
  std::size_t bytes = 0; ///< of these elements
  DataType type = DataType::int8;
  ReduceOp::Kind op = ReduceOp::Kind::sum; ///< of calls that reduce
  int root = -1;                           ///< or the peer of Send and Recv; -1: the call has none
  std::string_view algorithm;              ///< "ring", ...; empty for Send and Recv
  std::chrono::steady_clock::time_point time; ///< of the begin or end
  bool failed = false;                        ///< at the end
};

/// Functions that are called for every call; either may be null.
struct CallCallbacks {
  std::function<void(const CallEvent&)> begin, end;
};

/// Keeps callbacks registered as long as it lives.
class RONDO_API CallRegistration {
 public:
  CallRegistration() = default;
  CallRegistration(CallRegistration&&) noexcept = default;
  /// Removes the callbacks that this object kept.
  CallRegistration& operator=(CallRegistration&& other) noexcept;
  /// Removes the callbacks. When it returns, none of them runs, and none is called any more.
  /// On a thread that is inside one of them it does not wait; then they may still run on other
  /// threads.
  ~CallRegistration();

  struct State;

 private:
  friend RONDO_API CallRegistration onCalls(CallCallbacks callbacks);
  explicit CallRegistration(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

/// Registers callbacks for the calls of all communicators that this process opens from now on, also
/// through MPI, NCCL, Python and torch.distributed. Several may be registered; they are called in
/// the order of their registration. These have no events: a call that is refused because of its
/// arguments or because the communicator has failed, and the calls of a dropped Group. Every other
/// call has one begin and one end.
///
/// Threads. `begin` runs on the thread that makes the call; calls of a Group begin when it ends.
/// `end` runs on the thread that completes the call: one that waits on this communicator, or a
/// thread of the library. Callbacks of different communicators may run at the same time, those of
/// one communicator do not, and they are in the order of its calls' begins and ends.
///
/// A callback delays the call, and other threads that use the communicator. It must not use Rondo,
/// and must not wait for a thread that does. If it throws, the exception is logged, and this
/// callback is not called again. On GPUs begin and end are those of the call on the host, not of
/// the kernels.
///
/// Cost: without registered callbacks, none. With them a call costs about 105 ns more (measured on
/// a busy machine), and the time of the callbacks.
///
///     auto registration = rondo::onCalls({.begin = {}, .end = [](const rondo::CallEvent& call) {
///       std::fprintf(stderr, "%zu bytes\n", call.bytes);
///     }});
[[nodiscard]] RONDO_API CallRegistration onCalls(CallCallbacks callbacks);

} // namespace rondo
