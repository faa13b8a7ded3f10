// Makes PyTorch's exceptions of Rondo's errors.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "rondo/error.h"

namespace rondo::compat {

/// Which rank of which group an error is told to, and where the group's ranks stand in the job.
struct Teller {
  int rank = 0, size = 1;
  std::vector<int> global_ranks; ///< empty: the group is the job

  /// "all_reduce on rank 1 of 4: <text>", and behind it the culprit's rank in the job where that
  /// has another number.
  std::string sentence(const char* call, const Error& error) const;
  /// Throws torch.distributed.DistBackendError; ValueError for what is wrong with this rank's
  /// arguments, NotImplementedError for what is unsupported.
  [[noreturn]] void raise(const char* call, const Error& error) const;
  /// What raise() throws.
  std::exception_ptr exception(const char* call, const Error& error) const;
};

} // namespace rondo::compat
