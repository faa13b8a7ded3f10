// Runs the candidates of a call in rounds, and compares their times on all ranks.
#include "comm/trials.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <iterator>
#include <limits>

#include "planner/decide.h"
#include "planner/suitability.h"
#include "rondo/error.h"
#include "rondo/types.h"

namespace rondo::comm {

namespace {

constexpr int kRounds = 6;
/// The first round times few calls. After it, a candidate is dropped if it takes more than
/// kDropFirst times the fastest one's time; from round kSettled on, more than kDropLater times. On
/// a shared machine times of small calls differ by half from round to round, so the median of
/// several rounds counts.
constexpr double kDropFirst = 3.0, kDropLater = 1.5;
constexpr int kSettled = 3;
/// Measured differences of less than this are noise: the planner's choice stays.
constexpr double kNoise = 0.1;
/// Calls that are timed together: few in the first round, where a candidate may be very slow; then
/// so many that the fastest candidate takes kSecondsTogether, within these bounds. That is about
/// one time slice of the scheduler, which matters if ranks share processors.
constexpr int kTogetherFirst = 3, kFewestTogether = 1, kMostTogether = 1000;
constexpr double kSecondsTogether = 3e-3;
/// With more ranks than this, some candidates take very long and connect every rank to every other.
/// Then only the kFew candidates with the least predicted cost are measured, and the one that the
/// planner would choose.
constexpr int kRanksForAll = 8;
constexpr std::size_t kFew = 4;

std::size_t bytesOf(const Call& call) { return call.count * sizeOf(call.type); }

int sizeClass(std::size_t bytes) {
  return std::min(static_cast<int>(std::bit_width(bytes - 1)), 63);
}

/// Keeps the input of an in-place call, which the measured runs overwrite, and restores it at the
/// end.
class KeptInput {
 public:
  KeptInput(const Call& call, const Buffers& buffers) {
    const auto in = reinterpret_cast<std::uintptr_t>(call.input);
    const auto out = reinterpret_cast<std::uintptr_t>(call.output);
    const std::size_t bytes = buffers.input_bytes;
    if (bytes == 0 || in + bytes <= out || out + buffers.output_bytes <= in) return;
    at_ = static_cast<std::byte*>(const_cast<void*>(call.input));
    kept_.assign(at_, at_ + bytes);
  }
  ~KeptInput() {
    if (!kept_.empty()) std::memcpy(at_, kept_.data(), kept_.size());
  }
  KeptInput(const KeptInput&) = delete;
  KeptInput& operator=(const KeptInput&) = delete;

 private:
  std::byte* at_ = nullptr;
  std::vector<std::byte> kept_;
};

/// Replaces each rank's seconds by those of the slowest rank.
void maximum(std::vector<double>& seconds, const plan::Choice& algorithm,
             const Trials::Prepare& prepare) {
  const Call call{.collective = Collective::allreduce,
                  .input = seconds.data(),
                  .output = seconds.data(),
                  .count = seconds.size(),
                  .type = DataType::float64,
                  .op = ReduceOp::max};
  prepare(call, algorithm)();
}

struct Candidate {
  plan::Choice choice;
  std::function<void()> run;
  std::vector<double> rounds = {}; ///< seconds of the slowest rank

  double seconds() const {
    std::vector<double> sorted = rounds;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }
};

/// Drops candidates that take more than `most` times the fastest one's time.
void dropSlow(std::vector<Candidate>& candidates, double most) {
  double best = std::numeric_limits<double>::infinity();
  for (const Candidate& one : candidates) best = std::min(best, one.seconds());
  std::erase_if(candidates, [&](const Candidate& one) { return one.seconds() > most * best; });
}

} // namespace

std::vector<Trials::Timed> Trials::of(Collective collective, std::size_t bytes) const {
  if (bytes == 0 || bytes == planner::kUneven) return {};
  const std::lock_guard lock(mutex_);
  const auto found = measured_.find({collective, sizeClass(bytes)});
  return found == measured_.end() ? std::vector<Timed>() : found->second;
}

bool Trials::measurable(const Call& call) {
  return std::ranges::find(planner::kDecided, call.collective) != std::end(planner::kDecided) &&
         static_cast<std::size_t>(call.type) < kDataTypeCount;
}

bool Trials::settled(const Call& call) const {
  const std::size_t bytes = bytesOf(call);
  const auto& bits = settled_[static_cast<std::size_t>(call.collective)];
  return bytes == 0 || (bits.load(std::memory_order_relaxed) >> sizeClass(bytes) & 1) != 0;
}

void Trials::settle(const Call& call) {
  const std::size_t bytes = bytesOf(call);
  if (bytes > 0)
    settled_[static_cast<std::size_t>(call.collective)].fetch_or(
        std::uint64_t{1} << sizeClass(bytes), std::memory_order_relaxed);
}

void Trials::keep(const Call& call, std::vector<Timed> timed) {
  const std::lock_guard lock(mutex_);
  measured_[{call.collective, sizeClass(bytesOf(call))}] = std::move(timed);
  settle(call);
}

std::vector<plan::Choice> candidates(const Call& call, const plan::Spec& spec,
                                     const planner::Policy& policy, plan::PlanCache& plans) {
  const std::size_t bytes = bytesOf(call);
  if (!Trials::measurable(call) || call.layout || policy.devices || spec.ranks < 2 ||
      (!plan::parseAlgorithms(policy.algorithms, call.collective).empty() &&
       !plan::excludes(policy.algorithms, call.collective)) ||
      planner::decision(spec, bytes, policy, plans).by == planner::Decision::By::rules_file)
    return {};
  const planner::Suitability serves(spec, bytes, policy, plans);
  std::vector<plan::Choice> choices = planner::candidates(spec);
  std::erase_if(choices, [&](const plan::Choice& one) { return !serves(one); });
  if (spec.ranks <= kRanksForAll) return choices;
  const auto cost = [&](const plan::Choice& one) {
    return one.algorithm->cost(one.applied(spec), plan::Link(), static_cast<double>(bytes));
  };
  std::ranges::stable_sort(choices, {}, cost);
  if (choices.size() > kFew) choices.resize(kFew);
  const plan::Choice usual = planner::choose(spec, bytes, policy, plans);
  if (std::ranges::find(choices, usual) == choices.end()) choices.push_back(usual);
  return choices;
}

void order(std::vector<Trials::Timed>& timed, const plan::Choice& usual) {
  std::ranges::stable_sort(timed, {}, &Trials::Timed::seconds);
  const auto found = std::ranges::find(timed, usual, &Trials::Timed::choice);
  if (found != timed.end() && found->seconds <= timed.front().seconds * (1 + kNoise))
    std::rotate(timed.begin(), found, found + 1);
}

std::vector<Trials::Timed> measure(const Call& call, const Buffers& buffers, const Contest& contest,
                                   const Trials::Prepare& prepare) {
  const Call barrier{.collective = Collective::barrier};
  const auto waitForAll = prepare(barrier, contest.barrier);
  waitForAll(); // so all earlier collectives have ended
  const KeptInput input(call, buffers);
  std::vector<Candidate> left;
  for (const plan::Choice& choice : contest.candidates) {
    try {
      left.push_back({choice, prepare(call, choice)});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      continue; // unsupported on all ranks: its blocks do not fit into messages
    }
    left.back().run(); // connects the ranks
  }
  if (left.empty()) return {};
  int together = kTogetherFirst;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> seconds;
    for (const Candidate& one : left) {
      waitForAll();
      const auto from = std::chrono::steady_clock::now();
      for (int i = 0; i < together; ++i) one.run();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
      seconds.push_back(took.count() / together);
    }
    maximum(seconds, contest.allreduce, prepare);
    const double best = *std::ranges::min_element(seconds);
    for (std::size_t i = 0; i < left.size(); ++i) left[i].rounds.push_back(seconds[i]);
    if (round == 0) dropSlow(left, kDropFirst);
    if (round >= kSettled) dropSlow(left, kDropLater);
    if (round == 0)
      for (Candidate& one : left) one.rounds.clear(); // few calls, with cold caches
    // One round that was measured as too short must not make the next one long.
    together = std::clamp(static_cast<int>(kSecondsTogether / std::max(best, 1e-9)),
                          kFewestTogether, std::min(kMostTogether, 4 * together));
  }
  std::vector<Trials::Timed> result;
  for (const Candidate& one : left) result.push_back({one.choice, one.seconds()});
  order(result, contest.usual);
  return result;
}

} // namespace rondo::comm
