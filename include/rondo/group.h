// Group: several calls that start together.
#pragma once

#include <chrono>
#include <cstddef>

#include "rondo/export.h"
#include "rondo/work.h"

namespace rondo {

/// Collects calls and starts them together. While a Group exists, this thread's collectives, sends
/// and receives are only recorded: blocking calls return at once (their outputs are not ready), and
/// Async calls return the Work of that call. Other functions, such as split(), exchange() and
/// grow(), run at once. Before the group ends, wait() and waitFor() of this Work throw
/// Error(invalid_argument), test() returns false, and waitAny() counts it as done. Wrong arguments
/// throw at the call. end() starts all recorded calls, one communicator after the other, and waits.
///
/// A call whose communicator is destroyed before the group ends, or whose thread ends inside the
/// group, is not made: its Work is done, with Error(aborted).
///
/// Groups nest: end() and start() of an inner one start nothing, and its start() returns a Work
/// that is done. After end(), start() or drop(), all three throw Error(invalid_argument).
class RONDO_API Group {
 public:
  Group();
  /// If the group is still open, does what end() does, but logs errors: call end() to have them
  /// thrown. If an exception leaves its scope, its calls are not made, since their buffers may be
  /// gone: their Works are done, with Error(aborted). Ranks that make these calls wait for this
  /// rank until their timeout.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Starts the calls and waits for them. Throws the first error among them.
  void end();
  /// Does what end() does, without waiting.
  Work start();
  /// Closes the group and makes none of its calls: their Works are done, with Error(aborted). A
  /// group inside another group leaves its calls to the outer one.
  void drop();
  /// Returns a rough time of the calls in this thread's open groups, for ncclGroupSimulateEnd():
  /// at fixed speeds of 1 us a message, 10 GB/s for messages and 20 GB/s for reductions. Calls of
  /// one communicator count as running one after the other, different communicators as running at
  /// the same time. For this machine, use Communicator::explain().
  std::chrono::nanoseconds predict() const;

  /// Whether this thread has an open group, so that its calls are only recorded.
  static bool isOpen();

 private:
  Work leave(bool attended);
  bool open_ = true;
  int exceptions_ = 0;    ///< in flight when the group began
  std::size_t begin_ = 0; ///< number of calls that were recorded when it began
};

} // namespace rondo
