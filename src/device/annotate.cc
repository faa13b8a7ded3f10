// Begins and ends an NVTX range for each call.
#include "device/annotate.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "device/cuda/module.h"
#include "device/open_module.h"
#include "rondo/callbacks.h"

namespace rondo::device {

namespace {

/// Never destroyed: calls may end while the process exits.
class Ranges {
 public:
  explicit Ranges(const CudaModule& module)
      : module_(module),
        registration_(onCalls({[this](const CallEvent& call) { begin(call); },
                               [this](const CallEvent& call) { end(call); }})) {}

 private:
  using Key = std::tuple<std::uint64_t, int, std::uint64_t>;
  static Key keyOf(const CallEvent& call) { return {call.communicator, call.rank, call.number}; }

  void begin(const CallEvent& call) {
    const std::string text = "rondo " + std::string(call.title) + " #" +
                             std::to_string(call.sequence) + ", " + std::to_string(call.bytes) +
                             " B";
    const std::uint64_t range = module_.beginRange(text.c_str());
    const std::lock_guard lock(mutex_);
    open_[keyOf(call)] = range;
  }
  void end(const CallEvent& call) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(keyOf(call));
    if (found == open_.end()) return;
    module_.endRange(found->second);
    open_.erase(found);
  }

  const CudaModule& module_;
  std::mutex mutex_;
  std::map<Key, std::uint64_t> open_;
  CallRegistration registration_; ///< last: callbacks need the other members
};

const Ranges* makeRanges() {
  // By this variable NVTX finds the profiler.
  if (std::getenv("NVTX_INJECTION64_PATH") == nullptr) return nullptr;
  std::string why;
  const CudaModule* const module = openModule(why);
  return module ? new Ranges(*module) : nullptr;
}

} // namespace

void annotateCalls() {
  static const Ranges* const ranges = makeRanges();
  static_cast<void>(ranges);
}

} // namespace rondo::device
