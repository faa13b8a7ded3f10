// One rank's membership in one communicator: exchange of small blobs, and the control plane.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/board.h"
#include "bootstrap/call_log.h"
#include "net/connection.h"
#include "rondo/error.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"

namespace rondo::bootstrap {

/// Why a communicator failed. Ranks are ranks of that communicator; culprit -1: nobody in
/// particular.
struct Failure {
  ErrorCode code = ErrorCode::aborted;
  std::string text;
  int culprit = -1;
  std::optional<CallDifference> difference = {}; ///< of a mismatch; the text is made from it

  /// As callers see it.
  Error error() const { return Error(code, text, culprit); }
};

/// What a rank's engine is at. Reports carry it, so that deadlines can name who is late, and ranks
/// that call different things are found although no message between them would show it.
/// Written by the engine's thread, read by the control thread.
struct alignas(64) ProgressBoard {
  CallLog calls;                                    ///< the collectives entered
  std::atomic<std::uint64_t> completed{0};          ///< number of the last one completed
  std::atomic<DescribeSignature> describe{nullptr}; ///< set before the first call
};

/// Where an engine waits, for reports.
struct Stall {
  std::uint64_t sequence = 0; ///< 0: a Send or Recv
  int waiting_for = -1;       ///< rank of the peer
  std::string text;           ///< "AllReduce #412 (float sum, 100 elements): lane 0 step 3, tile 2"
  /// Told before, and nothing has moved since, nor is anything under way from or to the peer: if
  /// that has left, the wait is in vain.
  bool again = false;
};

class Session {
 public:
  /// Meets the other ranks. Throws Error(init_failed) with the missing ranks at the deadline.
  static std::unique_ptr<Session> open(const Rendezvous& meet, const Options& options);
  /// open() of the other ranks throws this. Throws Error(init_failed).
  static void decline(const Rendezvous& meet, const Failure& why, const Options& options);
  /// Leaves the communicator. The ranks' calls are compared for the last time, which waits for the
  /// control plane's answer (at most 400 ms). A difference is logged as an error by a rank that was
  /// not told(), since no call is left that could throw it: by one rank of a job that a launcher
  /// started, and of others by each.
  virtual ~Session() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::uint64_t communicator() const = 0; ///< equal on all ranks, unique within the job
  virtual std::uint64_t job() const = 0;
  virtual const net::Secret& secret() const = 0; ///< always present (made up when nobody gave one)
  /// Where this rank's data listeners bind and are reachable by the others; port 0.
  virtual net::SocketAddress bindAddress() const = 0;
  /// Set when all ranks are threads of this process.
  virtual std::shared_ptr<base::Board> board() const = 0;

  /// Collective. Element r is rank r's blob (at most 16 KiB). Throws Error(timeout) naming the
  /// missing ranks, or the failure of the communicator.
  virtual std::vector<std::vector<std::byte>> allGather(std::span<const std::byte> blob,
                                                        std::chrono::milliseconds limit) = 0;
  /// Collective. Communicator::split()'s rules; null for kNoColor.
  virtual std::unique_ptr<Session> split(int color, int key, std::chrono::milliseconds limit) = 0;

  /// A communicator of the ranks that `stay` names, by rank. Asks nobody and waits for nobody, so
  /// that it works when others are dead; those who stay must all call it, with the same ranks.
  virtual std::unique_ptr<Session> shrink(const std::vector<bool>& stay) = 0;

  // The control plane. Any thread.

  /// Not zero once the communicator has failed. Every wait polls it; a futex can wait on it.
  virtual const std::atomic<std::uint32_t>& failedWord() const = 0;
  /// Only after failedWord() is set.
  virtual Failure failure() const = 0;
  /// This rank's callers know of the failure.
  virtual void told() = 0;
  virtual ProgressBoard& progress() = 0;
  /// The engine has waited for a while (about 50 ms). The ranks' calls are compared: a difference
  /// is a mismatch, which fails the communicator with both calls' texts. A peer that has left
  /// without entering the call is peer_dead; of a Send or Recv, one that had left at two reports.
  virtual void stalled(const Stall& stall) = 0;
  /// Fails the communicator on all ranks and returns the failure that everyone sees: the first one
  /// that the ranks agree on, which may be another's. To a timeout's text the ranks are added that
  /// "did not call it", before its details, which follow a semicolon. Takes at most 500 ms.
  virtual Failure fail(const Failure& failure, const std::optional<Stall>& stall = {}) = 0;

 private:
  struct Way;
  static std::optional<Way> wayOf(const Rendezvous& meet, const Options& options);
};

} // namespace rondo::bootstrap
