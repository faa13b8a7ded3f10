// Hands out tasks to the ranks of a communicator, one after the other to whichever rank is free.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rondo/communicator.h"

namespace rondo::tools {

/// What ranks do with tasks. Tasks and results are texts; only rank 0 knows all of them.
struct Sharing {
  /// Does a task on this rank, on the thread that called shareTasks(). Ends early, with no result,
  /// once stop() is true. Must not throw: a failure is a result too.
  std::function<std::optional<std::string>(const std::string& task,
                                           const std::function<bool()>& stop)>
      work;
  /// Called on rank 0 for each result, in the order in which tasks end; never concurrently.
  std::function<void(std::size_t task, const std::string& result)> took;
};

/// Collective. Rank 0 hands out the tasks in their order, from a thread of its own, and works too.
/// Returns when every task has been done; returns false if a rank ended one early, after which no
/// rank begins another. `tasks` are used on rank 0. No other call may be made on `comm` meanwhile.
///
/// Errors: if a rank dies, or took() throws, the other ranks stop their tasks, and all throw. The
/// results that rank 0 has taken by then stay taken.
bool shareTasks(Communicator& comm, const std::vector<std::string>& tasks, const Sharing& sharing);

} // namespace rondo::tools
