#include "tools/threads.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "rondo/error.h"

namespace rondo::tools {

namespace {

bool isAbort(const std::exception_ptr& fault) {
  try {
    if (fault) std::rethrow_exception(fault);
  } catch (const Error& error) {
    return error.code() == ErrorCode::aborted;
  } catch (...) {
  }
  return false;
}

} // namespace

void onThreads(int count, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> faults(static_cast<std::size_t>(count));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i)
      threads.emplace_back([&work, &fault = faults[static_cast<std::size_t>(i)], i] {
        try {
          work(i);
        } catch (...) {
          fault = std::current_exception();
        }
      });
  }
  std::stable_partition(faults.begin(), faults.end(),
                        [](const auto& one) { return !isAbort(one); });
  for (const std::exception_ptr& fault : faults)
    if (fault) std::rethrow_exception(fault);
}

} // namespace rondo::tools
