// A rank of a communicator: turns calls into runs of the engine.
#include "comm/communicator_impl.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/parse.h"
#include "base/ticks.h"
#include "comm/clocks.h"
#include "comm/pending_group.h"
#include "comm/record.h"
#include "comm/region.h"
#include "device/annotate.h"
#include "observe/callbacks.h"
#include "observe/dump.h"
#include "observe/trace.h"
#include "rondo/communicator.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

int queueOf(const Call& call) {
  if (call.collective != Collective::sendrecv) return engine::Engine::kCollectives;
  return call.sending ? engine::Engine::sendQueue(call.root) : engine::Engine::recvQueue(call.root);
}

/// "shm, tcp": the transports to the other ranks.
std::string transportsOf(const engine::Fabric& fabric, int size) {
  std::set<std::string_view> names;
  for (int peer = 0; peer < size; ++peer) names.insert(fabric.transportTo(peer));
  if (names.size() > 1) names.erase("self");
  return base::join(names, ", ");
}

} // namespace

CommunicatorImpl::CommunicatorImpl(Parts parts)
    : session_(std::move(parts.session)),
      options_(std::move(parts.options)),
      measures_(options_.planner == "measured"),
      places_(std::move(parts.places)),
      rank_(session_->rank()),
      size_(session_->size()),
      progress_board_(session_->progress()),
      process_(::getpid()),
      recorder_({session_->job(), session_->communicator(), rank_, size_,
                 transportsOf(*parts.fabric, size_)}),
      fabric_(std::move(parts.fabric)),
      planner_(rank_, size_, std::move(parts.policy), options_.profile),
      calls_(rank_, size_),
      engine_(std::move(parts.engine)),
      failure_(*session_, *engine_, recorder_, options_.timeout, options_.patient),
      progress_loop_(*engine_, failure_, progress_board_, rank_, parts.oversubscribed) {
  progress_board_.describe = &describe;
  observe::dumpInto(options_.dump_folder);
  progress_board_.failed.set([this](const bootstrap::Failure& failure, bool last) {
    const std::vector<int> members = session_->members();
    const auto culprit = static_cast<std::size_t>(failure.culprit);
    recorder_.fail(failure.code, failure.text, failure.culprit,
                   culprit < members.size() ? members[culprit] : -1);
    turns_.stop();
    if (last) observe::dumpFailure(options_.heartbeat);
  });
}

/// Before the first call. Collective if Options::trace_folder is set.
void CommunicatorImpl::listen(std::shared_ptr<observe::Trace> trace) {
  if (!trace && !options_.trace_folder.empty()) {
    const observe::ClockOffset clock = compareClocks(*this, options_.device >= 0);
    progress_loop_.forgetThread();
    trace = observe::Trace::open(options_.trace_folder, recorder_.identity());
    trace->begin(clock);
  }
  trace_ = std::move(trace);
  if (trace_ && trace_->writes()) observe::Trace::follow(trace_, recorder_);
  device::annotateCalls();
  if (auto callbacks = observe::callbackListener(recorder_)) recorder_.listen(std::move(callbacks));
}

void CommunicatorImpl::trace(const TraceSpan& span) {
  if (trace_) trace_->add(span);
}

CommunicatorImpl::~CommunicatorImpl() {
  if (::getpid() == process_) progress_board_.failed.set(nullptr);
}

void CommunicatorImpl::close() noexcept {
  if (::getpid() != process_) {
    // The parent's calls in flight cannot end here, and the engine must not be destroyed under
    // them.
    if (!engine_->idle()) in_child_ = shared_from_this();
    return;
  }
  {
    // Waits until the thread that completed the last call has left the engine.
    const ProgressLoop::Lock lock(progress_loop_);
    if (engine_->idle()) return;
  }
  if (progress_loop_.run([this] { return engine_->idle(); }, base::Deadline(options_.timeout).at()))
    return;
  const ProgressLoop::Lock lock(progress_loop_);
  if (!engine_->idle()) failure_.leave();
}

/// Throws if the call is wrong, cannot be planned, or the communicator has failed.
CallCache::Known& CommunicatorImpl::known(const Call& call) {
  // A failure that is known but not yet seen here must end the calls first: a launch on a device
  // cannot be taken back, and the fast path of small calls does not look for failures.
  if (failure_.pending()) failure_.heed();
  CallCache::Known* const known = calls_.check(call);
  failure_.throwIfEnded();
  return known ? *known : learn(call);
}

/// Needs the lock. Calls body(). If this rank lacks a resource, the whole communicator fails.
template <class Body>
std::invoke_result_t<Body> CommunicatorImpl::orFail(const Call& call, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::system) throw; // all ranks get the same error
    failure_.failLocally(title(call), error.what());
  } catch (const std::bad_alloc& error) {
    failure_.failLocally(title(call), error.what());
  }
  failure_.rethrow();
}

CallCache::Known& CommunicatorImpl::learn(const Call& call) {
  return orFail(call, [&]() -> CallCache::Known& {
    auto [plan, algorithm] = planner_.bind(call, *engine_);
    CallCache::Known& known = calls_.add(call, std::move(plan));
    known.recorded = recordOf(call, known, recorder_.algorithm(algorithm), size_);
    return known;
  });
}

/// The same for a call that names its algorithm.
CallCache::Known& CommunicatorImpl::known(const Call& call, const plan::Choice& named) {
  if (failure_.pending()) failure_.heed();
  CallCache::Known* const known = calls_.check(call, named);
  failure_.throwIfEnded();
  if (known) return *known;
  return orFail(call, [&]() -> CallCache::Known& {
    planner_.requireServes(call, named);
    CallCache::Known& added = calls_.add(call, planner_.bind(call, named, *engine_), &named);
    const std::string algorithm = named.text();
    added.recorded = recordOf(call, added, recorder_.algorithm(algorithm), size_);
    base::log(rank_ == 0 ? LogLevel::info : LogLevel::trace, title(call), " of ", call.count, " ",
              name(call.type), " uses ", algorithm, " (the call names it)");
    return added;
  });
}

/// What a call in a Group refuses at once.
void CommunicatorImpl::refuseUnservable(const Call& call, const plan::Choice* named) {
  validate(call, rank_, size_);
  if (!named) return;
  const ProgressLoop::Lock lock(progress_loop_);
  planner_.requireServes(call, *named);
}

/// Needs the lock. A call that cannot run throws and changes nothing. Exception: if this rank lacks
/// a resource, the whole communicator fails.
void CommunicatorImpl::submit(const Call& call, const plan::Choice* named, engine::Run& run) {
  CallCache::Known& shape = named ? known(call, *named) : known(call);
  const Numbered as = number(call, shape, run);
  record(shape, as, run, base::ticks());
  submit(run, as.queue);
}

/// Numbers the call and fills its run.
inline CommunicatorImpl::Numbered CommunicatorImpl::number(const Call& call,
                                                           CallCache::Known& shape,
                                                           engine::Run& run) {
  engine_->admit(shape.buffers.input_bytes > 0 ? call.input : nullptr,
                 shape.buffers.output_bytes > 0 ? call.output : nullptr);
  if (reduces(call.collective)) {
    run.scaling = engine::scalingOf(call.op, call.type, size_);
    if (run.scaling.factor_at) engine_->admitFactor(run.scaling.factor_at);
  }
  const int queue = queueOf(call);
  const bool point_to_point = call.collective == Collective::sendrecv;
  const std::uint64_t sequence = point_to_point ? ++p2p_sequence_[queue] : ++sequence_;
  run.plan = &shape.plan;
  run.input = static_cast<const std::byte*>(call.input);
  run.output = static_cast<std::byte*>(call.output);
  run.signature = numbered(shape.signature, sequence);
  run.sequence = point_to_point ? 0 : sequence;
  return {queue, sequence};
}

/// Records that the run's call began at this time.
inline void CommunicatorImpl::record(const CallCache::Known& shape, const Numbered& as,
                                     engine::Run& run, std::uint64_t ticks) {
  const bool collective = as.queue == engine::Engine::kCollectives;
  if (collective) progress_board_.calls.enter(as.sequence, run.signature);
  run.recorded = recorder_.begin(shape.recorded, as.sequence, collective, ticks);
}

void CommunicatorImpl::submit(engine::Run& run, int queue) {
  try {
    engine_->submit(run, queue);
  } catch (...) {
    run.recorded.end(true);
    throw;
  }
}

void CommunicatorImpl::call(const Call& call) {
  if (PendingGroup::open()) {
    validate(call, rank_, size_);
    PendingGroup::add(*this, call, nullptr);
    return;
  }
  runNow(call);
}

void CommunicatorImpl::call(const Call& call, const plan::Choice& named) {
  if (PendingGroup::open()) {
    refuseUnservable(call, &named);
    PendingGroup::add(*this, call, &named);
    return;
  }
  engine::Run run;
  run.attended.store(true, std::memory_order_relaxed);
  {
    const ProgressLoop::Lock lock(progress_loop_);
    runOnce(call, known(call, named), run);
  }
  progress_loop_.giveWay();
  finish(run);
}

void CommunicatorImpl::runNow(const Call& call) {
  if (measures_) measureFirst(call);
  engine::Run run;
  run.attended.store(true, std::memory_order_relaxed);
  {
    const ProgressLoop::Lock lock(progress_loop_);
    runOnce(call, known(call), run);
  }
  progress_loop_.giveWay();
  finish(run);
}

/// Needs the lock. Starts a call whose thread will wait for it. It has two callers, and would not
/// be inlined otherwise, which costs a small call 10 instructions.
[[gnu::always_inline]] inline void CommunicatorImpl::runOnce(const Call& call,
                                                             CallCache::Known& shape,
                                                             engine::Run& run) {
  const Numbered as = number(call, shape, run);
  // A peer may end its call before this rank records that it has begun.
  const std::uint64_t begun = base::ticks();
  const std::size_t sent = shape.plan.fast_sends > 0 ? engine_->sendAtOnce(run) : 0;
  record(shape, as, run, begun);
  if (!shape.plan.fast_path.empty() && progress_loop_.runAtOnce(run, as.queue, sent)) return;
  submit(run, as.queue);
  engine_->flush();
  progress_loop_.poll();
}

inline void CommunicatorImpl::finish(engine::Run& run) {
  const auto done = [&run] { return run.done.load(std::memory_order_acquire); };
  if (!done()) progress_loop_.run(done);
  if (run.error) failure_.rethrow(*run.error);
}

Work CommunicatorImpl::start(const Call& call, const plan::Choice* named) {
  if (PendingGroup::open()) {
    refuseUnservable(call, named);
    return WorkState::handle(PendingGroup::add(*this, call, named));
  }
  auto state = std::make_shared<WorkState>();
  state->communicator = weak_from_this();
  {
    const ProgressLoop::Lock lock(progress_loop_);
    submit(call, named, state->run);
    state->run.keep = state;
    engine_->flush();
    progress_loop_.poll();
    if (!state->done()) progress_loop_.helper().need();
  }
  return WorkState::handle(std::move(state));
}

/// Measures the candidates of the first call of its kind.
void CommunicatorImpl::measureFirst(const Call& call) {
  Trials& trials = planner_.trials();
  if (call.layout || !Trials::measurable(call) || trials.settled(call)) return;
  std::optional<Contest> contest;
  {
    const ProgressLoop::Lock lock(progress_loop_);
    validate(call, rank_, size_);
    failure_.throwIfEnded();
    contest = planner_.contest(call);
  }
  if (!contest) return trials.settle(call);
  const auto prepare = [this](const Call& one, const plan::Choice& with) {
    return prepared(one, with);
  };
  try {
    trials.keep(call, measure(call, buffersOf(call, rank_, size_), *contest, prepare));
  } catch (const std::bad_alloc&) {
    const ProgressLoop::Lock lock(progress_loop_);
    orFail(call, [] { throw; });
  }
}

/// Binds the call with this algorithm. Returns a function that runs it and waits for its end.
std::function<void()> CommunicatorImpl::prepared(const Call& call, const plan::Choice& choice) {
  const ProgressLoop::Lock lock(progress_loop_);
  const auto known = orFail(call, [&] {
    auto made = std::make_shared<CallCache::Known>(
        CallCache::make(call, planner_.bind(call, choice, *engine_), rank_, size_));
    made->recorded = recordOf(call, *made, recorder_.algorithm(choice.text()), size_);
    return made;
  });
  return [this, &call, known] {
    engine::Run run;
    run.attended.store(true, std::memory_order_relaxed);
    {
      const ProgressLoop::Lock here(progress_loop_);
      if (failure_.pending()) failure_.heed();
      failure_.throwIfEnded();
      runOnce(call, *known, run);
    }
    progress_loop_.giveWay();
    finish(run);
  };
}

bool CommunicatorImpl::arrived(int peer) {
  if (peer < 0 || peer >= size_)
    throw Error(ErrorCode::invalid_argument, "arrived: " + std::to_string(peer) +
                                                 " is not a rank of this communicator (0 to " +
                                                 std::to_string(size_ - 1) + ")");
  const ProgressLoop::Lock lock(progress_loop_);
  if (failure_.pending()) progress_loop_.poll();
  failure_.throwIfEnded();
  requireHostBuffers("arrived");
  try {
    return engine_->arrived(peer);
  } catch (const Error& error) {
    // Messages of ranks that have not left may still come.
    if (error.code() == ErrorCode::peer_dead) throw;
    failure_.fail("arrived", error);
  }
  failure_.rethrow();
}

/// Needs the lock. Starts each call on its stream.
void CommunicatorImpl::startOnStreams(std::span<const std::shared_ptr<WorkState>> group) {
  const Stream last = stream();
  Stream now = last;
  const auto go = [&](Stream stream) {
    if (stream != now) engine_->setStream(stream);
    now = stream;
  };
  for (const std::shared_ptr<WorkState>& state : group) {
    state->held.store(false, std::memory_order_release);
    try {
      go(state->stream);
      submit(*state->call, state->namedOrNull(), state->run);
      state->run.keep = state;
    } catch (const Error& error) {
      state->endAtOnce(error);
    } catch (const std::exception& error) {
      state->endAtOnce(Error(ErrorCode::system, title(*state->call) + ": " + error.what()));
    }
  }
  engine_->flush();
  go(last);
}

void CommunicatorImpl::startHeld(std::span<const std::shared_ptr<WorkState>> group, bool attended) {
  const ProgressLoop::Lock lock(progress_loop_);
  startOnStreams(group);
  progress_loop_.poll();
  if (!attended) progress_loop_.helper().need();
}

void CommunicatorImpl::setTimeout(std::chrono::milliseconds timeout) {
  requireHostBuffers("setTimeout");
  Options asked;
  asked.timeout = timeout;
  asked.validate();
  const ProgressLoop::Lock lock(progress_loop_);
  options_.timeout = timeout;
  failure_.setTimeout(timeout);
}

void CommunicatorImpl::setStream(Stream stream) {
  const ProgressLoop::Lock lock(progress_loop_);
  engine_->setStream(stream);
  stream_.store(stream.handle(), std::memory_order_relaxed);
}

std::optional<Error> CommunicatorImpl::failure() const {
  if (!failure_.pending()) return std::nullopt;
  const bootstrap::Failure failure = session_->failure();
  session_->told();
  return failure.error();
}

Buffer CommunicatorImpl::keep(std::shared_ptr<Region> region) {
  return Buffer(weak_from_this(), std::move(region));
}

void CommunicatorImpl::refuseInUse(std::span<const std::byte> memory, const std::string& what) {
  if (::getpid() != process_) return; // a forked child makes no calls
  // Calls on a GPU use no such memory, and one that waits for channels keeps the lock.
  if (options_.device >= 0) return;
  if (engine_->idle()) return; // the lock would cost the other threads time
  const ProgressLoop::Lock lock(progress_loop_);
  const auto overlaps = [&memory](const std::byte* buffer, const engine::UsedBytes& used) {
    const std::less<> before;
    return used.begin < used.end && before(buffer + used.begin, memory.data() + memory.size()) &&
           before(memory.data(), buffer + used.end);
  };
  const engine::Run* user = engine_->findRun([&overlaps](const engine::Run& run) {
    return overlaps(run.input, run.plan->of_input) || overlaps(run.output, run.plan->of_output);
  });
  if (user)
    throw Error(ErrorCode::invalid_argument, what + " while " + FailureState::titleOf(*user) +
                                                 " of rank " + std::to_string(rank_) +
                                                 " uses the memory: wait for the call first");
}

void CommunicatorImpl::abort(const std::string& reason) {
  failure_.endPatience(); // with Options::patient, calls may go on after a death
  session_->fail(
      {ErrorCode::aborted, "rank " + std::to_string(rank_) + " aborted: " + reason, rank_});
}

void CommunicatorImpl::abandon(const std::string& why) {
  if (::getpid() != process_) return;
  std::string call;
  {
    const ProgressLoop::Lock lock(progress_loop_);
    progress_loop_.poll();
    const engine::Run* const first = engine_->findRun([](const engine::Run&) { return true; });
    if (!first) return;
    call = FailureState::titleOf(*first);
  }
  session_->fail({ErrorCode::aborted,
                  "rank " + std::to_string(rank_) + " aborted with " + call + " in flight: " + why,
                  rank_});
}

MemoryUse CommunicatorImpl::memory() {
  const ProgressLoop::Lock lock(progress_loop_);
  const engine::Fabric::Memory channels = fabric_->memory();
  return {channels.channels, channels.slots, channels.staging, engine_->scratchBytes()};
}

const Place& CommunicatorImpl::placeOf(int rank) const {
  if (rank < 0 || rank >= size_)
    throw Error(ErrorCode::invalid_argument,
                "placeOf: " + std::to_string(rank) + " is not a rank of this communicator");
  return places_[static_cast<std::size_t>(rank)];
}

std::string CommunicatorImpl::transportTo(int peer) const {
  if (peer < 0 || peer >= size_)
    throw Error(ErrorCode::invalid_argument,
                "transportTo: " + std::to_string(peer) + " is not a rank of this communicator");
  return std::string(fabric_->transportTo(peer));
}

} // namespace rondo::comm
