// The size-and-rank rule, until links are measured.
#include "planner/choose.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "rondo/error.h"

namespace rondo::planner {

namespace {

/// The algorithm for blocks of up to `up_to` bytes.
struct Rule {
  std::size_t up_to;
  std::string_view algorithm;
  int parameter = 0;
};

constexpr std::size_t kAlways = ~std::size_t{0};

/// A message below this costs its latency, whatever it carries.
constexpr std::size_t kSmall = 8 << 10;
/// Above this the bytes decide, not the messages.
constexpr std::size_t kLarge = 256 << 10;
/// Up to so many ranks, everybody may talk to everybody at once.
constexpr int kFew = 8;

/// Between two ranks one message each way beats two up to here: 16 KiB 2.8 and 3.2 us, 64 KiB 9.0
/// and 7.4 us.
constexpr std::size_t kPairSmall = 32 << 10;
/// Where ranks take turns on a processor, a message costs a turn, and the fewest win. Measured with
/// 3 to 64 ranks on 2 processors, us: 4 ranks, 8 B over TCP: butterfly 13, oneshot 20; 8 ranks, 1
/// KiB in shared memory: parameter_server 11, butterfly 16, direct 15; 64 ranks, 8 B: 52, tree 204,
/// butterfly 147.
constexpr int kFewCrowded = 4;
constexpr std::size_t kCrowdedSmall = 32 << 10;
/// Up to here in shared memory a message to everybody is cheaper than a second round (4 ranks, 8
/// B 1.8 and 2.2 us, 1 KiB 3.0 and 2.6 us).
constexpr std::size_t kCrowdedTiny = 256;

/// Senders that the root of a Gather takes messages from as they come. 4 processes, 16 MiB, with
/// one and three lanes: TCP 21.5 and 16.2 ms, shared memory 12.3 and 11.2 ms.
constexpr int kGatherLanes = 4;

std::vector<Rule> crowdedAllReduce(int ranks, bool streams) {
  if (ranks <= kFewCrowded && streams)
    return {{kCrowdedSmall, "butterfly"}, {kAlways, "halving_doubling"}};
  if (ranks == kFewCrowded)
    return {{kCrowdedTiny, "oneshot"},
            {kCrowdedSmall, "butterfly"},
            {4 * kLarge, "halving_doubling"},
            {kAlways, "ring"}};
  if (ranks <= kFew && streams)
    return {
        {kLarge / 2, "parameter_server"}, {2 * kLarge, "halving_doubling"}, {kAlways, "direct"}};
  if (ranks <= kFew) return {{2 * kCrowdedSmall, "parameter_server"}, {kAlways, "direct"}};
  return {{kLarge, "parameter_server"}, {4 * kLarge, "tree"}, {kAlways, "ring"}};
}

std::vector<Rule> rules(Collective collective, int ranks, const Policy& policy) {
  const bool few = ranks <= kFew;
  switch (collective) {
    case Collective::allreduce:
      if (ranks <= 2) return {{kPairSmall, "oneshot"}, {kAlways, "direct"}};
      if (policy.crowded && (few || !policy.streams))
        return crowdedAllReduce(ranks, policy.streams);
      if (few) return {{kSmall, "oneshot"}, {kAlways, "direct"}};
      return {{kSmall, "butterfly"}, {kLarge, "halving_doubling"}, {kAlways, "ring"}};
    case Collective::reducescatter:
      // 4 ranks, 8 B over TCP: 17.8 and 24.3 us; 8 ranks: 54 and 106 us; 3 ranks: 12.1 and 13.3 us.
      if (policy.crowded && few && policy.streams)
        return {{kLarge / 4, "halving"}, {kAlways, "direct"}};
      if (few) return {{kAlways, "direct"}};
      return {{kLarge, "halving"}, {kAlways, "ring"}};
    case Collective::allgather:
      // 4 ranks, 8 B over TCP: 15.3 and 21.6 us, 64 KiB: 130 and 80 us; 3 ranks, 8 B: 15.8 and 13.1
      // us.
      if (policy.crowded && few && policy.streams && ranks >= kFewCrowded)
        return {{kSmall, "bruck"}, {kAlways, "direct"}};
      if (few) return {{kAlways, "direct"}};
      return {{kSmall, "bruck"}, {kAlways, "ring"}};
    case Collective::broadcast:
      // 4 ranks over TCP: 8 B 2.6 (tree 3.5, linear 5.3), 8 KiB 4.3 us (tree 7.9, linear 7.7).
      if (policy.crowded && policy.streams && ranks <= kFewCrowded)
        return {{kSmall, "chain"}, {kLarge, "linear"}, {kAlways, "chain"}};
      if (policy.crowded && few) return {{kSmall, "tree"}, {kLarge, "linear"}, {kAlways, "chain"}};
      return {{kSmall, "tree"}, {kAlways, "chain"}};
    case Collective::reduce:
      if (policy.crowded && few) return {{kLarge, "linear"}, {kAlways, "chain"}};
      if (few) return {{kSmall, "linear"}, {kAlways, "chain"}};
      return {{kSmall, "tree"}, {kAlways, "chain"}};
    case Collective::scatter:
      // The root's own system calls are what the others wait for (4 ranks, 8 B: 5.9 and 2.5 us).
      if (policy.crowded && policy.streams) return {{kSmall, "tree"}, {kAlways, "linear"}};
      if (few) return {{kAlways, "linear"}};
      return {{kSmall, "tree"}, {kAlways, "linear"}};
    case Collective::gather: {
      const int lanes = policy.devices || ranks <= 2 ? 0 : std::min(kGatherLanes, ranks - 1);
      if (few) return {{kAlways, "linear", lanes}};
      return {{kSmall, "tree"}, {kAlways, "linear", lanes}};
    }
    case Collective::alltoall:
      // In turn means to wait for everybody's turn: 4 ranks, 8 B in shared memory 5.9 and 2.7 us, 8
      // ranks, 64 KiB 936 and 612 us. Over TCP until the bytes decide: 4 ranks, 4 MiB 15.8 and 11.4
      // ms.
      if (policy.crowded && few && policy.streams)
        return {{kSmall / 8, "bruck"}, {8 * kLarge, "direct"}, {kAlways, "pairwise"}};
      if (policy.crowded && few) return {{kAlways, "direct"}};
      if (few) return {{kAlways, "pairwise"}};
      return {{kSmall / 16, "bruck"}, {kAlways, "pairwise"}};
    case Collective::barrier: return {{kAlways, "dissemination"}};
    case Collective::sendrecv: break;
  }
  return {};
}

/// In deterministic mode: one pass over the contributions in rank order.
constexpr std::array<std::string_view, 4> kInRankOrder = {"direct", "oneshot", "linear",
                                                          "parameter_server"};

std::string what(const plan::Spec& spec) {
  return std::string(name(spec.collective)) + " of " + std::to_string(spec.ranks) + " ranks";
}

/// Whether an algorithm can serve one call, or why not.
class Suitability {
 public:
  Suitability(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
              plan::PlanCache& plans)
      : spec_(spec),
        uneven_(bytes == kUneven),
        ordered_(policy.deterministic && reduces(spec.collective)),
        plans_(plans) {}

  /// Empty: it can.
  std::string_view objection(const plan::Choice& choice) const {
    plan::Spec spec = spec_;
    spec.parameter = choice.parameter;
    if (!choice.algorithm->supports(spec)) return "does not support it";
    if (!uneven_ && !ordered_) return {};
    plan::Facts& facts = plans_.of(*choice.algorithm, spec).facts;
    if (uneven_ && !facts.servesUneven()) return "does not serve blocks of different sizes";
    if (ordered_ && !facts.inRankOrder())
      return "does not reduce in rank order, as deterministic mode demands";
    return {};
  }
  bool operator()(const plan::Choice& choice) const {
    return choice.algorithm && objection(choice).empty();
  }

 private:
  const plan::Spec& spec_;
  const bool uneven_, ordered_;
  plan::PlanCache& plans_;
};

plan::Choice byRule(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                    const Suitability& serves) {
  const bool deterministic = policy.deterministic && reduces(spec.collective);
  for (const Rule& rule : rules(spec.collective, spec.ranks, policy)) {
    if (bytes > rule.up_to) continue;
    if (const plan::Choice choice{plan::findAlgorithm(rule.algorithm), rule.parameter};
        serves(choice))
      return choice;
  }
  if (deterministic)
    for (std::string_view word : kInRankOrder)
      if (const plan::Choice choice{plan::findAlgorithm(word), 0}; serves(choice)) return choice;
  for (const plan::Algorithm* algorithm : plan::supporting(spec))
    if (const plan::Choice choice{algorithm, 0}; serves(choice)) return choice;
  throw Error(ErrorCode::unsupported, "no algorithm serves " + what(spec));
}

} // namespace

plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                    plan::PlanCache& plans) {
  const Suitability serves(spec, bytes, policy, plans);
  std::string refused;
  for (const plan::Choice& choice : plan::parseAlgorithms(policy.algorithms, spec.collective)) {
    const std::string_view objection = serves.objection(choice);
    if (objection.empty()) return choice;
    refused += (refused.empty() ? "" : "; ") + choice.text() + " " + std::string(objection);
  }
  if (!refused.empty())
    throw Error(ErrorCode::unsupported,
                "the algorithms asked for cannot serve " + what(spec) + ": " + refused);
  return byRule(spec, bytes, policy, serves);
}

plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy) {
  plan::PlanCache plans(0);
  return choose(spec, bytes, policy, plans);
}

} // namespace rondo::planner
