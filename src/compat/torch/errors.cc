// Converts Rondo's errors to PyTorch's exceptions, and writes their text.
#include "compat/torch/errors.h"

#include <c10/util/Exception.h>

namespace rondo::compat {

namespace {

/// Returns "1, 2, 3" of "...: ranks 1, 2 and 3 did not call it...": an Error has only one culprit,
/// its text has all of them.
std::string missingRanks(const Error& error) {
  const std::string text = error.what(), before = ": ranks ", last = " and ";
  const std::size_t end = text.find(" did not call it");
  const std::size_t begin = end == text.npos ? end : text.rfind(before, end);
  if (begin == text.npos) return std::to_string(error.culprit());
  std::string ranks = text.substr(begin + before.size(), end - begin - before.size());
  if (const std::size_t found = ranks.find(last); found != ranks.npos && !ranks.ends_with(" more"))
    ranks.replace(found, last.size(), ", ");
  return ranks;
}

} // namespace

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

Error withTextOfGloo(const Error& error, int rank, std::chrono::milliseconds limit, bool all) {
  if (error.code() != ErrorCode::timeout) return error;
  std::string words;
  if (rank > 0)
    words = "Rank " + std::to_string(rank) +
            " successfully reached monitoredBarrier, but received errors while waiting for "
            "send/recv from rank 0";
  else if (limit.count() <= 0) words = "Rank 0 timed out in monitoredBarrier";
  else if (error.culprit() > 0)
    words = (all ? "Ranks " + missingRanks(error) : "Rank " + std::to_string(error.culprit())) +
            " failed to pass monitoredBarrier in " + std::to_string(limit.count()) + " ms";
  else return error; // the culprit is rank 0, or not known
  return {error.code(), words + ": " + error.what(), error.culprit()};
}

} // namespace rondo::compat
