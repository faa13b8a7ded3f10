// The queues, runs and lanes of the host engine: selects the next step of each run.
#include "engine/host_engine.h"

#include <chrono>

#include "engine/bodies.h"

namespace rondo::engine {

namespace {

/// Limit of a failed call's wait for peers that copy from or to its memory. Copying a message takes
/// much less, even on a machine that pauses at times.
constexpr std::chrono::seconds kCopyingAtMost{5};

} // namespace

void HostEngine::setStream(Stream /*stream*/) {
  throw Error(ErrorCode::unsupported,
              "setStream: the buffers of this communicator are in host memory (RONDO_DEVICE)");
}

void HostEngine::admitFactor(const void* /*factor*/) const {
  throw Error(ErrorCode::invalid_argument,
              "the operator's factor is in a device's memory (ReduceOp::preMulSumAt), and this "
              "communicator is on none");
}

void HostEngine::submit(Run& run, int queue) {
  run.queued_ = {};
  Queue& into = queue == kCollectives ? collectives_ : point_to_point_[queue];
  if (into.tail) {
    into.tail->queued_.next = &run;
  } else {
    active_.push_back(&into); // may throw: the run is not in any queue yet
    into.head = &run;
  }
  into.tail = &run;
  ++run.plan->users;
  begin();
}

/// Queues a run whose steps before this one are done. No other run may be queued. It needs no
/// memory: the plan has run before in a queue, and so has a run of this queue.
void HostEngine::enqueue(Run& run, int queue, std::size_t step) noexcept {
  submit(run, queue);
  for (End* end : run.plan->rings_out) end->ring->shareReuse(run.plan->reuse_bytes);
  steps_.makeRoom(*run.plan);
  run.plan->cursors[0] = {0, static_cast<std::uint32_t>(step)};
  run.queued_.started = true;
}

/// Whether a run may take the fast path now.
inline bool HostEngine::mayRunAtOnce(const Run& run) const {
  return active_.empty() && !run.scaled() && !fabric_.works();
}

std::size_t HostEngine::sendAtOnce(Run& run) {
  std::size_t step = 0;
  if (mayRunAtOnce(run)) runFastPath(run, step, run.plan->fast_sends, 0);
  return step;
}

bool HostEngine::runAtOnce(Run& run, int queue, std::size_t done) {
  if (!mayRunAtOnce(run)) return false;
  current_ = &run;
  const std::size_t steps = run.plan->fast_path.size();
  try {
    runFastPath(run, done, steps, looks_);
  } catch (...) {
    enqueue(run, queue, done);
    throw;
  }
  if (done < steps) enqueue(run, queue, done);
  else endAtOnce(run);
  return true;
}

/// Removes the head of its queue. The run may be freed when this returns.
void HostEngine::complete(Queue& queue, const Error* error) {
  Run& run = *queue.head;
  queue.head = run.queued_.next;
  if (!queue.head) queue.tail = nullptr;
  end(run, error);
}

/// Sends first, then checks for arrived messages.
bool HostEngine::progress() {
  bool moved = advanceAll();
  if (fabric_.progress()) {
    advanceAll();
    moved = true;
  }
  return moved;
}

inline bool HostEngine::advanceAll() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size();) {
    Queue& queue = *active_[i];
    while (queue.head) {
      current_ = queue.head;
      if (!advance(*queue.head)) break;
      moved = true;
      ++queue.head->queued_.moves;
      if (queue.head->plan) break; // moved, but not complete
      complete(queue, nullptr);
    }
    if (queue.head) {
      ++i;
    } else {
      active_[i] = active_.back();
      active_.pop_back();
    }
  }
  return moved;
}

bool HostEngine::arrived(int peer) {
  const auto queue = point_to_point_.find(recvQueue(peer));
  if (queue != point_to_point_.end() && queue->second.head) return false;
  fabric_.progress();
  return fabric_.arrived(peer);
}

bool HostEngine::attended(const Queue& queue) {
  for (const Run* run = queue.head; run; run = run->queued_.next)
    if (run->sequence > 0 || run->attended.load(std::memory_order_relaxed)) return true;
  return false;
}

std::vector<Standing> HostEngine::standing(base::Clock::time_point now,
                                           base::Clock::duration at_least) {
  std::vector<Standing> found;
  for (Queue* queue : active_) {
    Run& run = *queue->head;
    Run::InQueue& state = run.queued_;
    if (state.seen_moves != state.moves || state.seen_at == base::Clock::time_point{} ||
        !attended(*queue)) {
      state.seen_moves = state.moves;
      state.seen_at = now;
      run.told = {};
    } else if (now - state.seen_at >= at_least) {
      found.push_back({&run, now - state.seen_at});
    }
  }
  return found;
}

void HostEngine::failAll(const Error& error) {
  const auto deadline = base::Clock::now() + kCopyingAtMost;
  fabric_.abandon();
  for (Queue* queue : active_)
    for (const Run* run = queue->head; run; run = run->queued_.next)
      giveBodiesBack(*run->plan, deadline);
  for (Queue* queue : active_)
    while (queue->head) {
      queue->head->plan->loans.withdraw(deadline);
      complete(*queue, &error);
    }
  active_.clear();
}

/// True if anything moved. Sets run.plan to null when the run is complete.
bool HostEngine::advance(Run& run) {
  if (!run.queued_.started && !start(run)) return false;
  BoundPlan& plan = *run.plan;
  bool moved = false;
  bool complete = true;
  for (std::size_t lane = 0; lane < plan.cursors.size(); ++lane) {
    moved |= advanceLane(run, lane);
    complete &= plan.cursors[lane].tile == plan.tiles;
  }
  if (!plan.network_out.empty()) {
    steps_.network().rest();
    complete &= steps_.network().flush(plan);
    moved |= steps_.network().moved();
  }
  if (!complete) return moved || (!plan.loans.empty() && plan.loans.help());
  if (!plan.loans.empty() && !plan.loans.settle()) return moved;
  ReductionCheck* const check = steps_.reductionCheck();
  if (!check) [[likely]] {
    finish(run);
  } else {
    if (!check->exchanges(run)) finish(run);
    if (check->goOn(run)) {
      run.queued_.started = false;
      return true;
    }
  }
  --run.plan->users;
  run.plan = nullptr;
  return true;
}

/// On the plan's first run: whether all its channels are open. Opening has no deadline here: the
/// peer may come as late as the run's deadline allows.
bool HostEngine::connect(BoundPlan& plan) {
  bool all = true;
  for (End* end : plan.ends) {
    if (end->pending) end->pending->extend();
    all &= fabric_.ready(*end);
  }
  if (!all) return false;
  for (End* end : plan.ends) {
    if (end->sender) plan.network_out.push_back(end);
    if (end->ring && end->sends) plan.rings_out.push_back(end);
  }
  if (!plan.rings_out.empty()) plan.reuse_bytes = transport::kReuseBytes / plan.rings_out.size();
  steps_.classify(plan);
  plan.connected = true;
  return true;
}

/// Sets the cursors to the beginning.
bool HostEngine::start(Run& run) {
  BoundPlan& plan = *run.plan;
  if (!plan.connected && !connect(plan)) return false;
  for (End* end : plan.rings_out) end->ring->shareReuse(plan.reuse_bytes);
  steps_.makeRoom(plan);
  for (std::size_t lane = 0; lane < plan.cursors.size(); ++lane)
    plan.cursors[lane] = {plan.last[lane].empty() ? plan.tiles : 0, 0};
  run.queued_.started = true;
  return true;
}

bool HostEngine::advanceLane(Run& run, std::size_t lane) {
  BoundPlan& plan = *run.plan;
  BoundPlan::Cursor& cursor = plan.cursors[lane];
  const std::size_t steps = plan.last[lane].size();
  bool moved = false;
  while (cursor.tile < plan.tiles) {
    if (plan.lanes_in_step && cursor.step == 0)
      for (const BoundPlan::Cursor& other : plan.cursors)
        if (other.tile < cursor.tile) return moved;
    // Also if the step has no part in the tile: later steps of the lane rely on this wait.
    for (const plan::Dependency& before : plan.last[lane][cursor.step].after) {
      const BoundPlan::Cursor& other = plan.cursors[before.lane];
      if (other.tile < cursor.tile || (other.tile == cursor.tile && other.step <= before.step))
        return moved;
    }
    if (const BoundStep* step = plan.at(lane, cursor)) {
      steps_.network().rest();
      if (!steps_.attempt(run, *step, cursor.tile)) return moved | steps_.network().moved();
    }
    moved = true; // other lanes may wait for this cursor
    if (++cursor.step == steps) {
      cursor.step = 0;
      ++cursor.tile;
    }
  }
  return moved;
}

void HostEngine::finish(Run& run) {
  if (!run.plan->divides) return;
  ReductionCheck* const check = steps_.reductionCheck();
  if (check) check->beforeDivision(run);
  kernels::divideIntegers(run.output, run.plan->shape.count, run.plan->shape.type,
                          run.scaling.divisor);
  if (check) check->after();
}

Position HostEngine::position(const Run& run) {
  if (!run.plan) return {};
  if (!run.queued_.started) {
    for (End* end : run.plan->ends)
      if (!end->open()) return {end->peer, "connecting to rank " + std::to_string(end->peer), true};
    return {-1, "waiting for its turn"};
  }
  for (std::size_t lane = 0; lane < run.plan->cursors.size(); ++lane) {
    const BoundPlan::Cursor& cursor = run.plan->cursors[lane];
    if (cursor.tile == run.plan->tiles) continue;
    const BoundStep* step = run.plan->at(lane, cursor);
    if (!step) continue; // the step has no part in this tile: its lane only waits for other lanes
    const ReductionCheck* const check = steps_.reductionCheck();
    const std::string where =
        (check && check->exchanges(run) ? "check of reductions, lane " : "lane ") +
        std::to_string(lane) + " step " + std::to_string(cursor.step) + ", tile " +
        std::to_string(cursor.tile + 1) + " of " + std::to_string(run.plan->tiles);
    for (const BoundOperand& input : step->inputs) {
      if (!input.wire) continue;
      End& end = *input.wire;
      if (end.mapped() ? !end.ring->readable() : end.arrival != End::Arrival::complete)
        return {end.peer, where + ", waiting to receive from rank " + std::to_string(end.peer),
                end.mapped()};
      if (end.mapped() && end.ring->awaitsBody())
        return {end.peer,
                where + ", waiting until rank " + std::to_string(end.peer) + " copies its message",
                true};
    }
    for (End* end : step->sends)
      if (end->mapped() ? !end->ring->hasRoom(step->bytes) : end->sender->pending() > 0)
        return {end->peer,
                where + ", waiting until rank " + std::to_string(end->peer) + " receives",
                end->mapped()};
  }
  for (const End* end : run.plan->network_out)
    if (end->sender->pending() > 0)
      return {end->peer, "waiting until rank " + std::to_string(end->peer) + " receives"};
  if (const End* end = run.plan->loans.unreturned())
    return {end->peer, "waiting until rank " + std::to_string(end->peer) + " has read its message"};
  return {};
}

} // namespace rondo::engine
