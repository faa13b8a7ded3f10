// Converts Rondo's errors to PyTorch's exceptions.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "rondo/error.h"

namespace rondo::compat {

/// The rank that reports an error, its group's size, and the ranks of the group's members in the
/// job.
struct Teller {
  int rank = 0, size = 1;
  std::vector<int> global_ranks; ///< empty: the group is the job

  /// "all_reduce on rank 1 of 4: <text>". Appends the culprit's rank in the job if that is another
  /// number than its rank in the group.
  std::string sentence(const char* call, const Error& error) const;
  /// Throws ValueError for wrong arguments of this rank, NotImplementedError for unsupported calls,
  /// and torch.distributed.DistBackendError for all other errors.
  [[noreturn]] void raise(const char* call, const Error& error) const;
  /// Returns the exception that raise() throws.
  std::exception_ptr exception(const char* call, const Error& error) const;
};

/// Returns the error of a monitored barrier with Gloo's text before its own, because programs match
/// that text. `limit`: the timeout to print; 0: none was given. `all`: rank 0 names all missing
/// ranks, not only the first.
Error withTextOfGloo(const Error& error, int rank, std::chrono::milliseconds limit, bool all);

} // namespace rondo::compat
