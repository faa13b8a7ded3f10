// One rank's membership in one communicator: exchanges of small blobs, and the control plane.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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

/// Why a communicator failed. Ranks are those of the communicator; culprit -1: no single rank.
struct Failure {
  ErrorCode code = ErrorCode::aborted;
  std::string text;
  int culprit = -1;
  std::optional<CallDifference> difference = {}; ///< if calls differ; the text is made from it

  /// The error that callers get.
  Error error() const { return Error(code, text, culprit); }
};

/// Rank `odd` has Options::tls = `tls`, and rank `first` has the opposite.
Failure differentTls(int odd, bool tls, int first);

/// Calls a function at a failure, as soon as the control plane knows the failure, also while no
/// thread of the program polls. Any thread.
class FailureWatch {
 public:
  /// `last`: false if the control plane of an in-process group still calls the functions of other
  /// ranks for this failure. Ranks that are connected to a hub always get true.
  using Tell = std::function<void(const Failure&, bool last)>;
  /// Sets the function; calls it at once if there has been a failure. Null: no function is called
  /// any more, and the old one is not running when this returns.
  void set(Tell tell);
  /// Only the first failure counts.
  void tell(const Failure& failure, bool last);
  /// Whether a function is set.
  bool listens();

 private:
  std::mutex mutex_;
  Tell tell_;
  std::optional<Failure> first_;
};

/// A rank's progress. The engine's thread writes it, the control thread reports it. From the
/// reports, timeouts name the late ranks, and ranks that make different calls are found even if no
/// message passes between them.
struct alignas(64) ProgressBoard {
  CallLog calls;                                    ///< the collectives that the rank has entered
  std::atomic<std::uint64_t> completed{0};          ///< number of the last collective completed
  std::atomic<DescribeSignature> describe{nullptr}; ///< set before the first call
  FailureWatch failed;
};

/// The call that an engine is waiting in, for reports.
struct Stall {
  std::uint64_t sequence = 0; ///< 0: a Send or Recv
  int waiting_for = -1;       ///< rank of the peer; -1: none in particular
  std::string text;           ///< "AllReduce #412 (float sum, 100 elements): lane 0 step 3, tile 2"
  /// Reported before, with no progress since, and nothing in flight from or to the peer. If the
  /// peer has left, the wait cannot end.
  bool again = false;
};

class Session {
 public:
  /// Joins the other ranks. Throws Error(init_failed) with the missing ranks at the deadline.
  static std::unique_ptr<Session> open(const Rendezvous& meet, const Options& options);
  /// Meets the other ranks of a communicator of `size` ranks, of which those from `newcomers` on
  /// call join(). Throws the errors of open().
  static std::unique_ptr<Session> grow(const UniqueId& id, int rank, int newcomers, int size,
                                       const Options& options);
  /// Waits until ranks that grow() need this one, and meets them. Throws Error(init_failed).
  static std::unique_ptr<Session> join(const UniqueId& id, const Options& options);
  /// Makes open() on the other ranks throw `why`. Throws Error(init_failed).
  static void decline(const Rendezvous& meet, const Failure& why, const Options& options);
  /// Leaves the communicator. Compares the ranks' calls for the last time, which waits for the
  /// control plane's answer (at most 400 ms). No later call could throw a difference, so it is
  /// logged as an error: by one rank of a job that a launcher started, otherwise by every rank that
  /// has not called told().
  virtual ~Session() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The ranks' numbers in the communicator of the rendezvous.
  virtual std::vector<int> members() const = 0;
  virtual std::uint64_t communicator() const = 0; ///< equal on all ranks, unique within the job
  virtual std::uint64_t job() const = 0;          ///< equal on all ranks; no other job has it
  virtual const net::Secret& secret() const = 0;  ///< always present; random if none was given
  /// The address for this rank's data listeners, which the other ranks can reach; port 0.
  virtual net::SocketAddress bindAddress() const = 0;
  /// Not null if all ranks are threads of this process.
  virtual std::shared_ptr<base::Board> board() const = 0;

  /// Collective. Element r is rank r's blob (at most 16 KiB). Throws Error(timeout) with the
  /// missing ranks, or the failure of the communicator.
  std::vector<std::vector<std::byte>> allGather(std::span<const std::byte> blob,
                                                std::chrono::milliseconds limit);
  /// Collective, by the rules of Communicator::split(); null for kNoColor.
  virtual std::unique_ptr<Session> split(int color, int key, std::chrono::milliseconds limit) = 0;

  /// A communicator of the ranks marked in `stay`. It sends no question and waits for no rank, so
  /// it works when others are dead. All ranks that stay must call it, with the same ranks.
  virtual std::unique_ptr<Session> shrink(const std::vector<bool>& stay) = 0;
  /// Collective: the last step of opening a communicator of shrink() or survivors(). If the
  /// hub dies meanwhile, all ranks that the next hub counts return, or all throw. Only a timeout
  /// may be thrown on some of them.
  virtual void finishOpening(std::chrono::milliseconds limit) = 0;
  /// A communicator of the ranks that live, respond, and have not left. Collective over them.
  /// Throws Error(timeout) if one of them does not call it within `limit`, and Error(unresponsive)
  /// if the majority of the job may be elsewhere.
  virtual std::unique_ptr<Session> survivors(std::chrono::milliseconds limit) = 0;

  // The control plane. Any thread.

  /// Becomes nonzero when the communicator fails. Every wait polls it; a futex can wait on it.
  virtual const std::atomic<std::uint32_t>& failedWord() const = 0;
  /// Requires that failedWord() is set.
  virtual Failure failure() const = 0;
  /// Says that a call of this rank has thrown the failure.
  virtual void told() = 0;
  virtual ProgressBoard& progress() = 0;
  /// The engine has waited for a while (about 50 ms). Compares the ranks' calls: a difference fails
  /// the communicator with a mismatch that names both calls. If the peer has left without entering
  /// the call, the failure is peer_dead; for a Send or Recv, if the peer had left at two reports.
  virtual void stalled(const Stall& stall) = 0;
  /// Fails the communicator on all ranks. Returns the failure that all ranks agree on, which may be
  /// another one that came first. The text of a timeout is completed with the ranks that "did not
  /// call it", before its details, which follow a semicolon. Takes at most 500 ms.
  virtual Failure fail(const Failure& failure, const std::optional<Stall>& stall = {}) = 0;

 private:
  /// allGather() of a blob that is not too large. `late`: the failure at the deadline.
  virtual std::vector<std::vector<std::byte>> gather(std::vector<std::byte> blob,
                                                     std::chrono::milliseconds limit,
                                                     const Failure& late) = 0;

  struct Way;
  static std::optional<Way> wayOf(const Rendezvous& meet, const Options& options);
};

} // namespace rondo::bootstrap
