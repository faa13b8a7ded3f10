// Runs the steps of a gradient reducer: collects ready parameters, starts full buckets in order,
// and copies results.
#include "gradients/reducer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/copy.h"
#include "base/float_environment.h"
#include "gradients/assign.h"
#include "gradients/models.h"
#include "gradients/options.h"

namespace rondo {

using gradients::Clock;

namespace {

/// An aborted communicator ends its works much sooner.
constexpr std::chrono::seconds kEndsWithin{10};

/// How long await() waits for one communicator before it progresses the others.
constexpr std::chrono::microseconds kTurn{100};

/// Waits for the end of a work after its communicator was aborted; ignores errors.
void settle(Work& work) {
  try {
    work.waitFor(kEndsWithin);
  } catch (const std::exception&) { // the error does not matter
  }
}

std::vector<std::size_t> reversed(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

} // namespace

GradientReducer::Impl::Impl(std::vector<Communicator*> communicators,
                            std::vector<Parameter> parameters, const GradientOptions& options)
    : communicators_(std::move(communicators)),
      parameters_(std::move(parameters)),
      options_(options),
      entries_(parameters_.size()),
      used_(parameters_.size(), 1) {
  try {
    gradients::refuseInGroup("GradientReducer");
    gradients::checkOptions(options_, communicators_);
    gradients::checkParameters(parameters_);
    gradients::checkHook(options_, parameters_);
  } catch (const std::exception& error) {
    abort(error.what());
    throw;
  }
  gradients::compareOptions(options_, communicators_);
  broadcastParameters(*communicators_.front(), parameters_);
  form(reversed(parameters_.size()));
}

/// Works in flight use the buckets and the arrays of hooks, so the destructor waits for them.
GradientReducer::Impl::~Impl() {
  if (::getpid() != process_) { // the calls cannot end here
    static_cast<void>(new auto(std::move(slots_)));
    static_cast<void>(new auto(std::move(sharing_)));
    return;
  }
  bool left = unfinished_;
  for (Slot& slot : slots_) left = !slot.work.test() || left;
  left = !sharing_.test() || left;
  if (!left) return;
  try {
    abort("GradientReducer: a step was left before the end of wait(), for example by an exception");
  } catch (const std::exception&) { // the works end by themselves, or with the deadline
  }
  for (Slot& slot : slots_) settle(slot.work);
  settle(sharing_);
}

// Buckets -----------------------------------------------------------------------------------------

std::byte* GradientReducer::Impl::inBucket(const Entry& entry) const {
  const GradientBucket& bucket = slots_[entry.slot].bucket;
  return static_cast<std::byte*>(bucket.data) + bucket.offsets[entry.place] * sizeOf(bucket.type);
}

void* GradientReducer::Impl::gradient(std::size_t parameter) const {
  if (parameter >= parameters_.size())
    throw Error(ErrorCode::invalid_argument, "gradient: " + title(parameter));
  void* const own = parameters_[parameter].gradient;
  return own ? own : inBucket(entries_[parameter]);
}

Communicator& GradientReducer::Impl::communicatorOf(std::size_t slot) const {
  return *communicators_[slot % communicators_.size()];
}

/// Forms new buckets, and moves the gradients that the old ones store. If it throws, nothing has
/// changed.
void GradientReducer::Impl::form(const std::vector<std::size_t>& order) {
  std::vector<Slot> slots;
  std::vector<Entry> entries = entries_;
  for (GradientBucket& bucket :
       gradients::assignBuckets(parameters_, order, options_.bucket_bytes)) {
    Slot& slot = slots.emplace_back();
    slot.memory = communicatorOf(bucket.index)
                      .allocate(std::max<std::size_t>(bucket.count * sizeOf(bucket.type), 1));
    bucket.data = slot.memory.data();
    slot.bucket = std::move(bucket);
    for (std::size_t place = 0; place < slot.bucket.parameters.size(); ++place) {
      const std::size_t number = slot.bucket.parameters[place];
      entries[number].slot = slot.bucket.index;
      entries[number].place = place;
      if (slots_.empty()) continue;
      std::memcpy(static_cast<std::byte*>(slot.memory.data()) +
                      slot.bucket.offsets[place] * sizeOf(slot.bucket.type),
                  inBucket(entries_[number]), parameters_[number].bytes());
    }
  }
  slots_ = std::move(slots);
  entries_ = std::move(entries);
}

/// Collective. Forms buckets in the order that rank 0 saw in the first step. Parameters that it did
/// not see come last.
void GradientReducer::Impl::followObservedOrder() {
  std::vector<std::uint64_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::uint64_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::uint64_t a, std::uint64_t b) {
    // Zero (never seen) wraps around to the largest value.
    return entries_[a].seen - 1 < entries_[b].seen - 1;
  });
  communicators_.front()->broadcast(order.data(), order.data(), order.size(), DataType::uint64, 0);
  form({order.begin(), order.end()});
}

// A step ------------------------------------------------------------------------------------------

bool GradientReducer::Impl::sharesUse() const {
  return options_.find_unused || (options_.static_graph && statistics_.steps == 0);
}

/// Collective. Prepares the buckets for a step. Returns the number of ranks that have data for it;
/// if that is 0, does nothing else.
int GradientReducer::Impl::open(bool with_data) {
  unfinished_ = true;
  Communicator& first = *communicators_.front();
  std::int32_t live = first.size();
  if (options_.uneven_inputs) {
    live = with_data ? 1 : 0;
    first.allReduce(&live, &live, 1, DataType::int32, ReduceOp::sum);
    unfinished_ = live > 0;
    if (!unfinished_) return 0;
  }
  const bool anew = options_.follow_observed_order && statistics_.steps > 0 && !formed_anew_ &&
                    (options_.static_graph || !options_.find_unused);
  if (anew) {
    followObservedOrder();
    formed_anew_ = true;
  }
  factor_ = options_.average ? 1.0 / live : 1.0;
  op_ = !options_.average      ? ReduceOp::sum
        : live == first.size() ? ReduceOp::avg
                               : ReduceOp::preMulSum(factor_);
  next_ = 0;
  for (Slot& slot : slots_) {
    slot.missing = slot.bucket.parameters.size();
    slot.bucket.factor = factor_;
    slot.over = false;
  }
  return live;
}

void GradientReducer::Impl::begin(bool synchronize) {
  requireNoGroup("begin");
  if (open_) fail("begin: wait() was not called for the last step");
  began_ = Clock::now();
  first_ready_ = {};
  if (synchronize) open(true);
  for (Entry& entry : entries_) entry.calls = 0;
  open_ = true;
  synchronize_ = synchronize;
  if (!synchronize || !options_.static_graph || learning()) return;
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].expected == 0 && !entries_[i].used) contributeZeros(i);
}

void GradientReducer::Impl::ready(std::size_t parameter) {
  requireNoGroup("ready");
  if (parameter >= parameters_.size()) fail("ready: " + title(parameter));
  if (!open_) fail("ready: " + title(parameter) + " outside of a step");
  if (first_ready_ == Clock::time_point{}) first_ready_ = Clock::now();
  Entry& entry = entries_[parameter];
  ++entry.calls;
  entry.used = true;
  if (!synchronize_) return;
  entry.seen = ++ticks_;
  if (learning()) return;
  if (entry.calls > entry.expected)
    fail(title(parameter) +
         (options_.static_graph ? " was made ready more often than in the first step (static_graph)"
                                : " was made ready twice in a step"));
  if (entry.calls == entry.expected) complete(parameter);
  look();
}

/// The parameter's contribution is now complete.
void GradientReducer::Impl::complete(std::size_t parameter) {
  const Entry& entry = entries_[parameter];
  const Parameter& of = parameters_[parameter];
  if (of.gradient) base::copyBytes(inBucket(entry), of.gradient, of.bytes());
  --slots_[entry.slot].missing;
  if (options_.overlap) launchFull();
}

void GradientReducer::Impl::contributeZeros(std::size_t parameter) {
  Entry& entry = entries_[parameter];
  std::byte* const at = inBucket(entry);
  const std::size_t bytes = parameters_[parameter].bytes();
  if (!parameters_[parameter].gradient) entry.saved.assign(at, at + bytes);
  std::memset(at, 0, bytes);
  --slots_[entry.slot].missing;
  if (options_.overlap) launchFull();
}

void GradientReducer::Impl::launchFull() {
  while (next_ < slots_.size() && slots_[next_].missing == 0) launch(next_++);
}

void GradientReducer::Impl::launch(std::size_t number) {
  Slot& slot = slots_[number];
  GradientBucket& bucket = slot.bucket;
  Communicator& comm = communicatorOf(number);
  slot.time.begin = Clock::now();
  if (!options_.hook && comm.size() == 1) { // with one rank, the bucket already holds the sum
    slot.over = true;
    slot.time.end = slot.time.begin;
    return;
  }
  const base::FloatEnvironment same_on_all_ranks; // for what hooks compute
  slot.work = options_.hook
                  ? options_.hook->start(comm, bucket)
                  : comm.allReduceAsync(bucket.data, bucket.data, bucket.count, bucket.type, op_);
}

/// Progresses all calls in flight on this thread, and notes which have completed: for each
/// communicator in the order of its buckets.
void GradientReducer::Impl::look() {
  for (std::size_t first = 0; first < communicators_.size(); ++first)
    for (std::size_t i = first; i < next_; i += communicators_.size()) {
      Slot& slot = slots_[i];
      if (slot.over) continue;
      if (!slot.work.test()) break;
      slot.over = true;
      slot.time.end = Clock::now();
    }
}

/// Waiting for a call progresses only its own communicator, so this alternates between all of them.
void GradientReducer::Impl::await(Slot& slot) {
  if (communicators_.size() > 1)
    while (!slot.work.waitFor(kTurn)) look();
  slot.work.wait();
  slot.work = {};
  if (slot.over) return;
  slot.over = true;
  slot.time.end = Clock::now();
}

/// Handles the parameters that are not ready at wait(): completes them, contributes zeros, or
/// fails.
void GradientReducer::Impl::checkComplete() {
  const bool learning = this->learning();
  std::size_t missing = 0, first = 0;
  for (std::size_t i = entries_.size(); i-- > 0;) {
    Entry& entry = entries_[i];
    if (learning) entry.expected = entry.calls;
    if (entry.calls > 0 && entry.calls == entry.expected) {
      if (learning) complete(i);
    } else if (entry.calls == 0 && entry.used) { // used in steps without synchronisation
      complete(i);
    } else if (entry.calls == 0 && (learning || (options_.find_unused && entry.expected > 0))) {
      contributeZeros(i);
    } else if (entry.expected > 0) { // expected == 0: begin() has contributed zeros
      first = i;
      ++missing;
    }
  }
  if (missing == 0) return;
  fail(title(first) + (missing > 1 ? " and " + std::to_string(missing - 1) + " others" : "") +
       (options_.static_graph ? " got fewer gradients than in the first step (static_graph)"
                              : " got no gradient in this step (find_unused is for models where "
                                "that is allowed)"));
}

void GradientReducer::Impl::wait() {
  requireNoGroup("wait");
  if (!open_) fail("wait: no step has begun");
  if (!synchronize_) {
    open_ = false;
    return;
  }
  checkComplete();
  learned_ = options_.static_graph;
  finish();
}

bool GradientReducer::Impl::shadow() {
  requireNoGroup("shadow");
  if (!options_.uneven_inputs || open_)
    fail(open_ ? "shadow: wait() was not called for the last step"
               : "shadow: GradientOptions::uneven_inputs is not set");
  began_ = first_ready_ = Clock::now();
  if (open(false) == 0) return false;
  open_ = true;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].used = false;
    contributeZeros(i);
  }
  finish();
  return true;
}

/// Starts the remaining buckets and takes the results. All contributions are in the buckets.
void GradientReducer::Impl::finish() {
  open_ = false; // the step is over, whatever is thrown from here on
  const Clock::time_point waiting = Clock::now();
  launchFull();
  const base::FloatEnvironment same_on_all_ranks; // for what hooks compute
  if (sharesUse()) {
    for (std::size_t i = 0; i < entries_.size(); ++i) used_[i] = entries_[i].used ? 1 : 0;
    sharing_ = communicators_.front()->allReduceAsync(used_.data(), used_.data(), used_.size(),
                                                      DataType::uint8, ReduceOp::max);
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    await(slot);
    slot.bytes = slot.bucket.count * sizeOf(slot.bucket.type);
    if (options_.hook) {
      options_.hook->finish(communicatorOf(i), slot.bucket);
      slot.time.end = Clock::now();
      slot.bytes = options_.hook->bytes(slot.bucket);
    }
  }
  sharing_.wait();
  sharing_ = {};
  takeResults();
  account(waiting);
}

void GradientReducer::Impl::takeResults() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    const Parameter& of = parameters_[i];
    if (used_[i] == 0 && !entry.used) {
      if (!of.gradient) std::memcpy(inBucket(entry), entry.saved.data(), entry.saved.size());
    } else if (of.gradient) {
      base::copyBytes(of.gradient, inBucket(entry), of.bytes());
    }
    entry.saved.clear();
    entry.used = false;
  }
  unfinished_ = false;
}

void GradientReducer::Impl::account(Clock::time_point waiting) {
  std::vector<gradients::Interval> times;
  timeline_.clear();
  for (const Slot& slot : slots_) {
    times.push_back(slot.time);
    timeline_.push_back({slot.bucket.index, gradients::seconds(slot.time.begin - began_),
                         gradients::seconds(slot.time.end - began_), slot.bytes});
    statistics_.bytes += slot.bytes;
  }
  ++statistics_.steps;
  if (first_ready_ == Clock::time_point{}) first_ready_ = waiting;
  statistics_.forward += gradients::seconds(first_ready_ - began_);
  statistics_.backward += gradients::seconds(waiting - first_ready_);
  statistics_.communication += gradients::covered(times, Clock::time_point::max());
  statistics_.overlap += gradients::covered(times, waiting);
  statistics_.exposed += gradients::seconds(Clock::now() - waiting);
}

std::string GradientReducer::Impl::title(std::size_t parameter) const {
  if (parameter >= parameters_.size())
    return "parameter " + std::to_string(parameter) + " does not exist; there are " +
           std::to_string(parameters_.size());
  return "parameter \"" + parameters_[parameter].name + "\" of rank " +
         std::to_string(communicators_.front()->rank());
}

void GradientReducer::Impl::abort(const std::string& text) const {
  for (Communicator* one : communicators_) one->abort(text);
}

void GradientReducer::Impl::requireNoGroup(const std::string& function) {
  try {
    gradients::refuseInGroup(function);
  } catch (const Error& error) {
    fail(error.what());
  }
}

void GradientReducer::Impl::fail(const std::string& text) {
  open_ = unfinished_ = false;
  abort(text);
  throw Error(ErrorCode::invalid_argument, text);
}

std::vector<GradientBucket> GradientReducer::Impl::buckets() const {
  std::vector<GradientBucket> all;
  for (const Slot& slot : slots_) {
    all.push_back(slot.bucket);
    all.back().data = nullptr;
    all.back().factor = 1;
  }
  return all;
}

// Public interface --------------------------------------------------------------------------------

GradientHook::~GradientHook() = default;
std::uint64_t GradientHook::bytes(const GradientBucket& bucket) const {
  return bucket.count * sizeOf(bucket.type);
}
std::vector<GradientHookArray> GradientHook::state(std::span<const GradientBucket>) { return {}; }

GradientReducer::GradientReducer(Communicator& comm, std::vector<Parameter> parameters,
                                 const GradientOptions& options)
    : GradientReducer(std::vector<Communicator*>{&comm}, std::move(parameters), options) {}
GradientReducer::GradientReducer(std::vector<Communicator*> communicators,
                                 std::vector<Parameter> parameters, const GradientOptions& options)
    : impl_(std::make_unique<Impl>(std::move(communicators), std::move(parameters), options)) {}
GradientReducer::~GradientReducer() = default;
GradientReducer::GradientReducer(GradientReducer&&) noexcept = default;
GradientReducer& GradientReducer::operator=(GradientReducer&&) noexcept = default;

void* GradientReducer::gradient(std::size_t parameter) const { return impl_->gradient(parameter); }
void GradientReducer::begin(bool synchronize) { impl_->begin(synchronize); }
void GradientReducer::ready(std::size_t parameter) { impl_->ready(parameter); }
void GradientReducer::wait() { impl_->wait(); }
bool GradientReducer::shadow() { return impl_->shadow(); }
std::vector<GradientBucket> GradientReducer::buckets() const { return impl_->buckets(); }
GradientStatistics GradientReducer::statistics() const { return impl_->statistics(); }
std::vector<GradientBucketTimes> GradientReducer::timeline() const { return impl_->timeline(); }

} // namespace rondo
