// Keeps the registered callbacks, and protects calls from them.
#include "rondo/callbacks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/log.h"
#include "observe/callbacks.h"
#include "observe/recorder.h"

namespace rondo {

struct CallRegistration::State {
  using Function = std::function<void(const CallEvent&)>;

  /// Calls the function, unless it was removed or has thrown.
  void call(Function State::*function, const char* when, const CallEvent& event) {
    const std::shared_lock lock(mutex);
    std::atomic<bool>& off = dropped[function == &State::end];
    if (!(this->*function) || off.load()) return;
    State* const outer = std::exchange(inside, this);
    std::string why;
    try {
      (this->*function)(event);
    } catch (const std::exception& error) {
      why = error.what();
    } catch (...) {
      why = "an unknown exception";
    }
    inside = outer;
    if (why.empty()) return;
    off.store(true);
    base::log(LogLevel::error, "a callback at the ", when,
              " of calls threw, and is not called any more: ", why);
  }

  std::shared_mutex mutex; ///< exclusive: the functions change
  Function begin, end;
  std::array<std::atomic<bool>, 2> dropped{}; ///< begin, end: it is not called any more
  static thread_local State* inside;          ///< whose function this thread is in
};
thread_local CallRegistration::State* CallRegistration::State::inside = nullptr;

namespace {

using State = CallRegistration::State;

/// Never destroyed: communicators may outlive static objects.
struct Registry {
  static Registry& ofProcess() {
    static Registry& instance = *new Registry;
    return instance;
  }
  std::mutex mutex;
  std::vector<std::shared_ptr<State>> all;
};

/// One communicator's callbacks.
class Callbacks final : public observe::CallListener {
 public:
  Callbacks(const observe::Recorder& recorder, std::vector<std::shared_ptr<State>> all)
      : recorder_(recorder), all_(std::move(all)) {}

  void begun(const observe::Record& call) override { tell(&State::begin, "begin", call); }
  void ended(const observe::Record& call) override { tell(&State::end, "end", call); }

 private:
  void tell(State::Function State::*function, const char* when, const observe::Record& call) {
    observe::Shape shape;
    if (!observe::Shape::unpack(call.what, shape)) return;
    const observe::Identity& who = recorder_.identity();
    CallEvent event;
    event.communicator = who.communicator;
    event.rank = who.rank;
    event.size = who.size;
    event.number = call.number;
    event.sequence = call.sequence;
    event.collective = shape.collective;
    event.sending = shape.sending;
    event.uneven = shape.uneven;
    const std::string title = std::string(shape.title()) + (shape.uneven ? "v" : "");
    event.title = title;
    event.count = call.count;
    event.bytes = call.count * sizeOf(shape.type);
    event.type = shape.type;
    event.op = shape.op;
    const bool p2p = shape.collective == Collective::sendrecv;
    if (p2p || hasRoot(shape.collective)) event.root = shape.root;
    if (!p2p) event.algorithm = recorder_.algorithmName(shape.algorithm);
    event.failed = call.ended & 1;
    event.time = std::chrono::steady_clock::now();
    for (const auto& one : all_) one->call(function, when, event);
  }

  const observe::Recorder& recorder_;
  const std::vector<std::shared_ptr<State>> all_;
};

/// Removes the callbacks; afterwards none of them runs on another thread.
void remove(const std::shared_ptr<State>& state) {
  if (!state) return;
  Registry& registry = Registry::ofProcess();
  {
    const base::NoFork whole;
    const std::lock_guard lock(registry.mutex);
    std::erase(registry.all, state);
  }
  for (std::atomic<bool>& one : state->dropped) one.store(true);
  if (State::inside == state.get()) return; // it waits for no other thread's end then
  const std::unique_lock lock(state->mutex);
  state->begin = state->end = nullptr;
}

} // namespace

CallRegistration::CallRegistration(std::shared_ptr<State> state) : state_(std::move(state)) {}

CallRegistration& CallRegistration::operator=(CallRegistration&& other) noexcept {
  remove(std::exchange(state_, std::move(other.state_)));
  return *this;
}

CallRegistration::~CallRegistration() { remove(state_); }

CallRegistration onCalls(CallCallbacks callbacks) {
  auto state = std::make_shared<State>();
  state->begin = std::move(callbacks.begin);
  state->end = std::move(callbacks.end);
  Registry& registry = Registry::ofProcess();
  const base::NoFork whole;
  const std::lock_guard lock(registry.mutex);
  registry.all.push_back(state);
  return CallRegistration(std::move(state));
}

namespace observe {

std::unique_ptr<CallListener> callbackListener(const Recorder& recorder) {
  Registry& registry = Registry::ofProcess();
  const base::NoFork whole;
  const std::lock_guard lock(registry.mutex);
  if (registry.all.empty()) return nullptr;
  return std::make_unique<Callbacks>(recorder, registry.all);
}

} // namespace observe

} // namespace rondo
