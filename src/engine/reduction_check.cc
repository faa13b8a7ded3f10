// Keeps samples of reductions, and exchanges and checks them.
#include "engine/reduction_check.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/float_environment.h"
#include "kernels/reduce.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
/// Words before the samples.
constexpr std::size_t kHead = 2;
/// Words of the first message, which is enough for a small call, and of each later one.
constexpr std::size_t kFirstWords = 64, kMoreWords = 4096;
/// Messages that are received before they are checked. So their memory does not depend on what the
/// peer says.
constexpr std::size_t kTogether = 8;
constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

std::uint64_t load(const std::byte* from, std::size_t bytes) {
  std::uint64_t bits = 0; // little endian
  switch (bytes) {        // a memcpy of known size is no call
    case 1: std::memcpy(&bits, from, 1); break;
    case 2: std::memcpy(&bits, from, 2); break;
    case 4: std::memcpy(&bits, from, 4); break;
    default: std::memcpy(&bits, from, 8); break;
  }
  return bits;
}

/// The number of the pass's first element in one of the caller's buffers, if operands or results
/// are there.
std::uint64_t numberOf(const Run& run, const Operands& operands, std::size_t element) {
  const auto within = [&](const void* at, const std::byte* buffer, const UsedBytes& used) {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(buffer);
    return buffer && offset >= used.begin && offset < used.end ? offset / element : kUnknown;
  };
  std::uint64_t found = kUnknown;
  for (std::size_t i = 0; i < operands.in_count && found == kUnknown; ++i) {
    found = within(operands.ins[i], run.input, run.plan->of_input);
    if (found == kUnknown) found = within(operands.ins[i], run.output, run.plan->of_output);
  }
  for (std::size_t i = 0; i < operands.out_count && found == kUnknown; ++i)
    found = within(operands.outs[i], run.output, run.plan->of_output);
  return found;
}

std::byte* bytes(std::vector<std::uint64_t>& words, std::size_t from) {
  return reinterpret_cast<std::byte*>(words.data() + from);
}

/// How many messages of `most` words contain `words`.
std::size_t messages(std::size_t words, std::size_t most) { return (words + most - 1) / most; }

} // namespace

ReductionCheck::ReductionCheck(Fabric& fabric)
    : fabric_(fabric),
      next_((fabric.rank() + 1) % fabric.size()),
      previous_((fabric.rank() + fabric.size() - 1) % fabric.size()),
      first_(planOf(kFirstWords)),
      more_(planOf(kMoreWords)),
      random_(static_cast<std::uint64_t>(fabric.rank())) {}

/// A plan whose messages have so many words, or as many as fit a slot. One lane sends, the other
/// receives.
BoundPlan ReductionCheck::planOf(std::size_t words) const {
  plan::RankPlan plan;
  plan.rank = fabric_.rank();
  plan.spec = {Collective::alltoall, fabric_.size(), 0, 0}; // it only moves data, in all directions
  plan.channels = {{plan.rank, next_, transport::ChannelId::kSamples},
                   {previous_, plan.rank, transport::ChannelId::kSamples}};
  plan::Step send, receive;
  send.inputs.push_back({plan::Operand::kLocal, {plan::Space::input, 0, 1}});
  send.sends.push_back(0);
  receive.inputs.push_back({1, {}});
  receive.output = plan::Piece{plan::Space::output, 0, 1};
  plan.lanes.push_back({{std::move(send)}});
  plan.lanes.push_back({{std::move(receive)}});
  words = std::min(words, fabric_.messageBytes() / kWord);
  // Bound for two tiles. exchange() sets how many there are.
  BoundPlan bound = bind(plan, {2 * words, DataType::uint64}, fabric_, words * kWord);
  for (BoundLane& lane : bound.full) lane[0].raw_input = -1; // samples are not scaled
  bound.last = bound.full;
  return bound;
}

std::size_t ReductionCheck::random() {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return random_ >> 33;
}

void ReductionCheck::before(const Run& run, const BoundStep& step, const Operands& operands,
                            std::size_t count) {
  const bool scaled = run.scaled() && step.raw_input >= 0;
  if (operands.in_count == 1 && !scaled) return;
  keep(run, {operands.in_count, scaled ? static_cast<std::size_t>(step.raw_input) + 1 : 0},
       operands, count);
}

void ReductionCheck::beforeDivision(const Run& run) {
  const void* in = run.output;
  void* out = run.output;
  keep(run, {.operands = 1, .divided = true}, {&in, 1, &out, 1}, run.plan->shape.count);
}

void ReductionCheck::keep(const Run& run, const What& what, const Operands& operands,
                          std::size_t count) {
  if (own_.empty()) own_.resize(kHead);
  const std::size_t element = sizeOf(run.plan->shape.type);
  const std::uint64_t number = numberOf(run, operands, element);
  result_ = static_cast<const std::byte*>(operands.outs[random() % operands.out_count]);
  for (std::size_t begin = 0; begin < count; begin += kEvery) {
    const std::size_t index = begin + random() % std::min(kEvery, count - begin);
    own_.push_back(what.operands | what.scaled << 16 | std::uint64_t{what.divided} << 32);
    own_.push_back(number == kUnknown ? kUnknown : number + index);
    for (std::size_t i = 0; i < operands.in_count; ++i)
      own_.push_back(
          load(static_cast<const std::byte*>(operands.ins[i]) + index * element, element));
    samples_.push_back({index * element, own_.size()});
    own_.push_back(element); // until after()
  }
}

void ReductionCheck::after() {
  for (const Sample& sample : samples_)
    own_[sample.result] = load(result_ + sample.offset, own_[sample.result]);
  samples_.clear();
}

bool ReductionCheck::goOn(Run& run) {
  if (!exchanges(run)) {
    if (!reduces(run.plan->collective)) return false;
    begin(run);
    return true;
  }
  checkArrived(run.plan == &first_);
  if (sent_ < own_words_ || missing_ > 0) {
    exchange(run, more_);
    return true;
  }
  own_.clear();
  run.plan = plan_;
  run.input = input_;
  run.output = output_;
  return false;
}

void ReductionCheck::begin(Run& run) {
  plan_ = run.plan;
  input_ = run.input;
  output_ = run.output;
  divisor_ = run.scaling.divisor;
  own_.resize(std::max(own_.size(), kHead));
  own_words_ = own_.size();
  own_[0] = own_words_;
  own_[1] = std::bit_cast<std::uint64_t>(run.scaling.factor);
  const std::size_t first = first_.tile_bytes / kWord, more = more_.tile_bytes / kWord;
  own_.resize(first + messages(std::max(own_words_, first) - first, more) * more);
  sent_ = unchecked_ = missing_ = 0;
  exchange(run, first_);
}

/// Lets the run send and receive the next messages. There is always a first one, so that both ends
/// know how many follow.
void ReductionCheck::exchange(Run& run, BoundPlan& plan) {
  const std::size_t words = plan.tile_bytes / kWord;
  const bool first = &plan == &first_;
  const auto tiles = [&](std::size_t left) {
    return first ? 1 : std::min(messages(left, words), kTogether);
  };
  const std::size_t sends = tiles(own_words_ - std::min(sent_, own_words_));
  const std::size_t receives = tiles(missing_);
  for (auto* lanes : {&plan.full, &plan.last}) {
    (*lanes)[0][0].tiles = sends;
    (*lanes)[1][0].tiles = receives;
  }
  plan.tiles = std::max(sends, receives);
  theirs_.resize(unchecked_ + receives * words);
  run.plan = &plan;
  run.input = bytes(own_, sent_);
  run.output = bytes(theirs_, unchecked_);
  sent_ += sends * words;
}

/// Checks the samples that have arrived as a whole, and keeps the part of one that has not.
void ReductionCheck::checkArrived(bool first) {
  std::size_t at = 0;
  if (first) {
    missing_ = theirs_[0];
    their_factor_ = std::bit_cast<double>(theirs_[1]);
    at = kHead;
  }
  const std::size_t arrived = std::min(theirs_.size() - unchecked_, missing_);
  const std::span<const std::uint64_t> all(theirs_.data(), unchecked_ + arrived);
  missing_ -= arrived;
  const base::FloatEnvironment same_on_all_ranks;
  while (at < all.size()) {
    const std::size_t words = check(all.subspan(at));
    if (words == 0) break;
    at += words;
  }
  if (at > all.size() || (missing_ == 0 && at < all.size())) failMalformed();
  unchecked_ = all.size() - at;
  std::copy(all.begin() + static_cast<std::ptrdiff_t>(at), all.end(), theirs_.begin());
}

/// Checks the sample that begins here. Returns its words; 0 if some of them are missing.
std::size_t ReductionCheck::check(std::span<const std::uint64_t> words) const {
  const What what{words[0] & 0xffff, words[0] >> 16 & 0xffff, (words[0] >> 32) != 0};
  if (what.operands == 0 || what.scaled > what.operands) failMalformed();
  const std::size_t size = 2 + what.operands + 1;
  if (words.size() < size) return 0;
  const std::uint64_t right = computed(what, words.subspan(2, what.operands));
  if (!kernels::sameElement(plan_->shape.type, words[size - 1], right))
    fail(what, words.first(size), right);
  return size;
}

std::uint64_t ReductionCheck::computed(const What& what,
                                       std::span<const std::uint64_t> operands) const {
  const DataType type = plan_->shape.type;
  if (what.divided) {
    std::uint64_t element = operands[0];
    kernels::divideIntegers(&element, 1, type, divisor_);
    return element;
  }
  if (what.scaled == 0) return kernels::reduceElement(type, plan_->shape.op, operands);
  std::vector<std::uint64_t> scaled(operands.begin(), operands.end());
  std::uint64_t& one = scaled[what.scaled - 1];
  one = kernels::scaleElement(type, one, their_factor_);
  return kernels::reduceElement(type, plan_->shape.op, scaled);
}

void ReductionCheck::fail(const What& what, std::span<const std::uint64_t> sample,
                          std::uint64_t right) const {
  const DataType type = plan_->shape.type;
  const std::string previous = "rank " + std::to_string(previous_);
  std::string text = previous + " computed element ";
  text += sample[1] == kUnknown ? "(of a partial result)" : std::to_string(sample[1]);
  text += " wrongly: ";
  for (std::size_t i = 0; i < what.operands; ++i) {
    if (i > 0) text += i + 1 == what.operands ? " and " : ", ";
    text += kernels::elementText(type, sample[2 + i]);
    if (i + 1 == what.scaled) text += " times " + std::to_string(their_factor_);
  }
  if (what.divided) text += " divided by " + std::to_string(divisor_);
  text += " gave " + kernels::elementText(type, sample.back()) + ", on rank " +
          std::to_string(fabric_.rank()) + " it gives " + kernels::elementText(type, right);
  throw Error(ErrorCode::wrong_result, text, previous_);
}

void ReductionCheck::failMalformed() const {
  throw Error(ErrorCode::transport,
              "rank " + std::to_string(previous_) + " sent samples of its reductions that are none",
              previous_);
}

} // namespace rondo::engine
