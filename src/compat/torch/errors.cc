// Converts Rondo's errors to PyTorch's exceptions, and writes their text.
#include "compat/torch/errors.h"

#include <c10/util/Exception.h>

namespace rondo::compat {

std::string Teller::sentence(const char* call, const Error& error) const {
  std::string text = std::string("rondo: ") + call + " on rank " + std::to_string(rank) + " of " +
                     std::to_string(size) + ": " + error.what();
  const auto culprit = static_cast<std::size_t>(error.culprit());
  if (error.culprit() >= 0 && culprit < global_ranks.size() &&
      global_ranks[culprit] != error.culprit())
    text += " (rank " + std::to_string(culprit) + " of this group is rank " +
            std::to_string(global_ranks[culprit]) + " of the job)";
  return text;
}

void Teller::raise(const char* call, const Error& error) const {
  switch (error.code()) {
    case ErrorCode::invalid_argument: C10_THROW_ERROR(ValueError, sentence(call, error));
    case ErrorCode::unsupported: C10_THROW_ERROR(NotImplementedError, sentence(call, error));
    default: C10_THROW_ERROR(DistBackendError, sentence(call, error));
  }
}

std::exception_ptr Teller::exception(const char* call, const Error& error) const {
  try {
    raise(call, error);
  } catch (...) {
    return std::current_exception();
  }
}

} // namespace rondo::compat
