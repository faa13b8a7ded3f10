// Begins and ends an NVTX range for each call. Ranges of asynchronous calls overlap, and begin and
// end on different threads, so these are process ranges with an id.
#include "device/cuda/annotate.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "rondo/callbacks.h"

namespace rondo::device {

namespace {

/// Never destroyed: calls may end while the process exits.
class Ranges {
 public:
  Ranges()
      : registration_(onCalls({[this](const CallEvent& call) { begin(call); },
                               [this](const CallEvent& call) { end(call); }})) {}

 private:
  using Key = std::tuple<std::uint64_t, int, std::uint64_t>;
  static Key keyOf(const CallEvent& call) { return {call.communicator, call.rank, call.number}; }

  void begin(const CallEvent& call) {
    const std::string text = "rondo " + std::string(call.title) + " #" +
                             std::to_string(call.sequence) + ", " + std::to_string(call.bytes) +
                             " B";
    const nvtxRangeId_t id = ::nvtxRangeStartA(text.c_str());
    const std::lock_guard lock(mutex_);
    open_[keyOf(call)] = id;
  }
  void end(const CallEvent& call) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(keyOf(call));
    if (found == open_.end()) return;
    ::nvtxRangeEnd(found->second);
    open_.erase(found);
  }

  std::mutex mutex_;
  std::map<Key, nvtxRangeId_t> open_;
  CallRegistration registration_; ///< last: callbacks need the other members
};

} // namespace

void annotateCudaCalls() {
  // By this variable NVTX finds the profiler; without one its functions do nothing.
  static const Ranges* const ranges =
      std::getenv("NVTX_INJECTION64_PATH") != nullptr ? new Ranges : nullptr;
  static_cast<void>(ranges);
}

} // namespace rondo::device

#else

void rondo::device::annotateCudaCalls() {}

#endif
