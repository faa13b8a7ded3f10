// Checks the obligation data_flow: the final content of each chunk, and how it was reduced.
//
// Every value is symbolic: undefined, a contribution (chunk c of rank r's input), or a reduction of
// values. Conflicting steps are ordered (obligation race), so one order of the steps represents
// all.
#include <algorithm>
#include <map>
#include <utility>

#include "plan/check_parts.h"

namespace rondo::plan {
namespace {

using Value = std::uint32_t;
constexpr Value kUndefined = 0;

/// All values of one collective. Equal numbers mean equal values.
class Values {
 public:
  Values(int ranks, std::uint32_t chunks)
      : chunks_(chunks), first_sum_(1 + static_cast<std::uint32_t>(ranks) * chunks) {}

  Value contribution(int rank, std::uint32_t chunk) const {
    return 1 + static_cast<std::uint32_t>(rank) * chunks_ + chunk;
  }
  bool isSum(Value value) const { return value >= first_sum_; }
  int rankOf(Value contribution) const { return static_cast<int>((contribution - 1) / chunks_); }
  std::uint32_t chunkOf(Value contribution) const { return (contribution - 1) % chunks_; }

  Value reduce(std::span<const Value> operands) {
    if (operands.size() == 1) return operands[0];
    for (const Value operand : operands) {
      if (operand == kUndefined) return kUndefined;
    }
    Sum sum{.operands = {operands.begin(), operands.end()}, .canonical = 0};
    std::vector<Value> form;
    for (const Value operand : operands) form.push_back(canonical(operand));
    if (form[1] < form[0]) std::swap(form[0], form[1]);
    const auto next = static_cast<Value>(first_sum_ + sums_.size());
    sum.canonical = forms_.try_emplace(std::move(form), next).first->second;
    sums_.push_back(std::move(sum));
    return next;
  }

  /// The sum of all ranks' windows, in an unknown order.
  Value reduceInSwitch(std::span<const Value> operands) {
    const Value sum = reduce(operands);
    if (!isSum(sum)) return sum;
    Sum& made = sums_[sum - first_sum_];
    made.ordered = false;
    std::vector<Value> form{kSwitch};
    for (const Value operand : operands) form.push_back(canonical(operand));
    std::sort(form.begin() + 1, form.end());
    made.canonical = forms_.try_emplace(std::move(form), sum).first->second;
    return sum;
  }

  /// The contributions in a value, with repetition; no more than `most`, because a value that is
  /// added to itself again and again contains very many.
  std::vector<Value> leavesOf(Value value, std::size_t most) const {
    std::vector<Value> leaves, open{value};
    while (!open.empty() && leaves.size() < most) {
      const Value one = open.back();
      open.pop_back();
      if (isSum(one)) {
        const std::vector<Value>& operands = sums_[one - first_sum_].operands;
        open.insert(open.end(), operands.begin(), operands.end());
      } else if (one != kUndefined) {
        leaves.push_back(one);
      }
    }
    return leaves;
  }
  /// Equal for values that are bitwise equal in any arithmetic in which a + b = b + a.
  Value canonical(Value value) const {
    return isSum(value) ? sums_[value - first_sum_].canonical : value;
  }
  /// Whether one step made the value from contributions in ascending rank order.
  bool inRankOrder(Value value) const {
    if (!isSum(value)) return true;
    const Sum& sum = sums_[value - first_sum_];
    return sum.ordered && std::is_sorted(sum.operands.begin(), sum.operands.end()) &&
           !isSum(sum.operands.back());
  }
  std::string formula(Value value) const {
    if (!isSum(value)) return value == kUndefined ? "?" : std::to_string(rankOf(value));
    std::string text;
    const Sum& sum = sums_[value - first_sum_];
    for (const Value operand : sum.operands) {
      if (!text.empty()) text += sum.ordered ? " + " : ", ";
      text += isSum(operand) ? "(" + formula(operand) + ")" : formula(operand);
    }
    return sum.ordered ? text : "sum of {" + text + "}";
  }

 private:
  struct Sum {
    std::vector<Value> operands;
    Value canonical;
    bool ordered = true;
  };
  static constexpr Value kSwitch = ~Value{0}; ///< marks the sum of a switch
  std::uint32_t chunks_;
  Value first_sum_;
  std::vector<Sum> sums_;
  std::map<std::vector<Value>, Value> forms_;
};

class DataFlow {
 public:
  DataFlow(const Graph& graph, const Violations& violations)
      : graph_(graph),
        violations_(violations),
        spec_(graph.plans()[0].spec),
        k_(graph.plans()[0].chunks_per_block),
        values_(spec_.ranks, inputChunks()),
        results_(graph.nodes().size()),
        operands_(graph.nodes().size()) {}

  bool run(std::span<const std::uint32_t> order, ReductionOrder& reduction) {
    const auto before = violations_.room();
    for (const bool in_place : {false, true}) {
      prepare(in_place);
      for (const auto n : order) {
        if (violations_.full()) return false;
        in_place ? again(n) : perform(n);
      }
      checkOutputs(in_place);
      if (violations_.room() < before) return false;
      if (!in_place) record(reduction);
    }
    return true;
  }

 private:
  /// The largest number of chunks in a rank's input.
  std::uint32_t inputChunks() const {
    std::uint32_t blocks = 0;
    for (int r = 0; r < spec_.ranks; ++r) blocks = std::max(blocks, inputBlocks(spec_, r));
    return blocks * k_;
  }

  void prepare(bool in_place) {
    in_place_ = in_place;
    memories_.clear();
    cells_.clear();
    for (const RankPlan& plan : graph_.plans()) {
      memories_.push_back(memoryOf(plan, in_place));
      auto& cells = cells_.emplace_back(memories_.back().cells, kUndefined);
      for (std::uint32_t c = 0; c < inputBlocks(spec_, plan.rank) * k_; ++c) {
        cells[memories_.back().at({Space::input, c})] = values_.contribution(plan.rank, c);
      }
    }
  }

  void complain(const std::string& text) const {
    violations_.add(Obligation::data_flow, text + (in_place_ ? ", in place" : ""));
  }

  /// Out of place: computes the values.
  void perform(std::uint32_t n) {
    const Graph::Node& node = graph_.nodes()[n];
    const Step& step = *node.step;
    const auto rank = static_cast<std::size_t>(node.rank);
    const auto received = graph_.received(n);
    const auto count = step.shape.count;
    if (step.is_barrier) return;
    if (step.inputs[0].of_all) {
      sumUp(n);
      return store(step, rank, n);
    }
    std::vector<Value> operands(step.inputs.size());
    for (std::uint32_t j = 0; j < count; ++j) {
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        if (received[i] != Graph::kNone) {
          operands[i] = results_[graph_.messages()[received[i]].from][j];
          continue;
        }
        const Piece& piece = step.inputs[i].piece;
        operands[i] = cells_[rank][memories_[rank].at(piece) + j];
        operands_[n].push_back(operands[i]);
        if (operands[i] == kUndefined) {
          complain(graph_.where(n) + " reads " + text(Piece{piece.space, piece.chunk + j}) +
                   ", which nothing has written");
        }
      }
      results_[n].push_back(values_.reduce(operands));
    }
    store(step, rank, n);
  }

  /// Reads a piece of all ranks' windows, which have the same layout.
  void sumUp(std::uint32_t n) {
    const Step& step = *graph_.nodes()[n].step;
    const Piece& piece = step.inputs[0].piece;
    for (std::uint32_t j = 0; j < step.shape.count; ++j) {
      std::vector<Value> operands;
      for (std::size_t r = 0; r < cells_.size(); ++r) {
        operands.push_back(cells_[r][memories_[r].at(piece) + j]);
        operands_[n].push_back(operands.back());
        if (operands.back() == kUndefined)
          complain(graph_.where(n) + " reads " + text(Piece{piece.space, piece.chunk + j}) +
                   " of rank " + std::to_string(r) + ", which nothing has written");
      }
      results_[n].push_back(values_.reduceInSwitch(operands));
    }
  }

  /// In place: every step must read what it read out of place. Then it also does the same.
  void again(std::uint32_t n) {
    const Graph::Node& node = graph_.nodes()[n];
    const Step& step = *node.step;
    const auto rank = static_cast<std::size_t>(node.rank);
    std::size_t next = 0;
    for (std::uint32_t j = 0; j < step.shape.count; ++j) {
      for (const Operand& operand : step.inputs) {
        if (!operand.local()) continue;
        bool same = true;
        const auto [first, end] = ranksOf(rank, operand.of_all);
        for (std::size_t r = first; r < end; ++r)
          same &= cells_[r][memories_[r].at(operand.piece) + j] == operands_[n][next++];
        if (same) continue;
        complain(graph_.where(n) + " reads " +
                 text(Piece{operand.piece.space, operand.piece.chunk + j}) +
                 " after its place was overwritten");
      }
    }
    store(step, rank, n);
  }

  void store(const Step& step, std::size_t rank, std::uint32_t n) {
    if (!step.output) return;
    const auto [first, end] = ranksOf(rank, step.to_all);
    for (std::size_t r = first; r < end; ++r)
      std::copy(results_[n].begin(), results_[n].end(),
                cells_[r].begin() + memories_[r].at(*step.output));
  }

  /// The first and the end of the ranks whose memory is used: one rank's, or all ranks'.
  std::pair<std::size_t, std::size_t> ranksOf(std::size_t rank, bool all) const {
    return all ? std::pair(std::size_t{0}, cells_.size()) : std::pair(rank, rank + 1);
  }

  /// What the collective defines for a chunk of the output: contributions of some ranks.
  struct Promise {
    detail::RankRange ranks; ///< if empty, the chunk may hold anything
    std::uint32_t chunk;     ///< of their input

    auto operator<=>(const Promise&) const = default;
  };

  Promise promiseOf(int rank, std::uint32_t c) const {
    const detail::CollectiveTraits& collective = traits(spec_.collective);
    const auto block = static_cast<int>(c / k_);
    const auto chunk = static_cast<std::uint32_t>(collective.input.own(rank)) * k_ + c % k_;
    return {collective.contributorsTo(rank, block, spec_.root, spec_.ranks), chunk};
  }

  /// Empty if the value is the defined one.
  std::string difference(Value value, const Promise& promise) {
    if (promise.ranks.empty()) return {};
    if (value == kUndefined) return "is never written";
    const auto [at, fresh] = proved_.try_emplace(value, promise);
    if (!fresh && at->second == promise) return {};
    std::vector<Value> wanted;
    for (int r = promise.ranks.first; r < promise.ranks.end; ++r)
      wanted.push_back(values_.contribution(r, promise.chunk));
    auto held = values_.leavesOf(value, static_cast<std::size_t>(spec_.ranks) + 1);
    std::sort(held.begin(), held.end());
    if (held == wanted) return {};
    proved_.erase(value);

    std::vector<Value> lacking, extra;
    std::set_difference(wanted.begin(), wanted.end(), held.begin(), held.end(),
                        std::back_inserter(lacking));
    std::set_difference(held.begin(), held.end(), wanted.begin(), wanted.end(),
                        std::back_inserter(extra));
    const auto list = [&](const std::vector<Value>& contributions) {
      constexpr std::size_t kShown = 3;
      std::string text;
      for (std::size_t i = 0; i < std::min(contributions.size(), kShown); ++i) {
        text += (i == 0 ? "rank " : ", rank ") + std::to_string(values_.rankOf(contributions[i])) +
                "'s chunk " + std::to_string(values_.chunkOf(contributions[i]));
      }
      return text + (contributions.size() > kShown ? ", ..." : "");
    };
    std::string text = "holds the wrong data:";
    if (!lacking.empty()) text += " it lacks " + list(lacking);
    if (!extra.empty())
      text += (lacking.empty() ? " it has " : " and has ") + list(extra) + " too much";
    return text;
  }

  void checkOutputs(bool in_place) {
    for (const RankPlan& plan : graph_.plans()) {
      if (in_place && !hasInPlace(spec_, plan.rank)) continue;
      for (std::uint32_t c = 0; c < outputBlocks(spec_, plan.rank) * k_; ++c) {
        const auto problem = difference(outputOf(plan.rank, c), promiseOf(plan.rank, c));
        if (problem.empty()) continue;
        complain("rank " + std::to_string(plan.rank) + ": " + text(Piece{Space::output, c}) + " " +
                 problem);
      }
    }
  }

  Value outputOf(int rank, std::uint32_t c) const {
    const auto r = static_cast<std::size_t>(rank);
    return cells_[r][memories_[r].at({Space::output, c})];
  }

  void record(ReductionOrder& reduction) {
    if (!reduces(spec_.collective)) return;
    std::map<Promise, Value> forms;
    for (const RankPlan& plan : graph_.plans()) {
      for (std::uint32_t c = 0; c < outputBlocks(spec_, plan.rank) * k_; ++c) {
        const Promise promise = promiseOf(plan.rank, c);
        if (promise.ranks.empty()) continue;
        const Value value = outputOf(plan.rank, c);
        if (reduction.example.empty()) reduction.example = values_.formula(value);
        if (!values_.inRankOrder(value)) reduction.rank_order = false;
        const Value form = values_.canonical(value);
        const auto [at, fresh] = forms.try_emplace(promise, form);
        if (!fresh && at->second != form) reduction.agrees = false;
      }
    }
  }

  const Graph& graph_;
  const Violations& violations_;
  const Spec spec_;
  const std::uint32_t k_;
  Values values_;
  std::vector<std::vector<Value>> results_;  ///< of each node, by chunk
  std::vector<std::vector<Value>> operands_; ///< what each node read locally, out of place
  std::map<Value, Promise> proved_;          ///< values that are known to fulfil a promise
  bool in_place_ = false;
  std::vector<Memory> memories_;
  std::vector<std::vector<Value>> cells_; ///< [rank][cell]
};

/// Barrier: for each step, the ranks that are known to have entered before it.
bool checkBarrier(const Graph& graph, std::span<const std::uint32_t> order,
                  const Violations& violations) {
  const auto before = violations.room();
  const auto ranks = graph.plans().size();
  std::vector<std::vector<bool>> heard(graph.nodes().size(), std::vector<bool>(ranks));
  std::vector<std::vector<bool>> done(ranks, std::vector<bool>(ranks));
  const auto join = [](std::vector<bool>& into, const std::vector<bool>& from) {
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = into[i] || from[i];
  };
  for (const auto n : order) {
    const Graph::Node& node = graph.nodes()[n];
    const auto rank = static_cast<std::size_t>(node.rank);
    heard[n][rank] = true;
    if (!node.first) join(heard[n], heard[n - 1]);
    for (const Dependency& d : node.step->after) {
      join(heard[n], heard[graph.node(node.rank, d.lane, d.step)]);
    }
    for (const auto message : graph.received(n)) {
      if (message != Graph::kNone) join(heard[n], heard[graph.messages()[message].from]);
    }
    join(done[rank], heard[n]);
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t q = 0; q < ranks; ++q) {
      if (q == r || done[r][q]) continue;
      violations.add(Obligation::data_flow, "rank " + std::to_string(r) +
                                                " may leave the barrier before rank " +
                                                std::to_string(q) + " has entered");
    }
  }
  return violations.room() == before;
}

} // namespace

bool checkDataFlow(const Graph& graph, std::span<const std::uint32_t> order,
                   const Violations& violations, ReductionOrder& reduction) {
  if (!traits(graph.plans()[0].spec.collective).movesData()) {
    return checkBarrier(graph, order, violations);
  }
  return DataFlow(graph, violations).run(order, reduction);
}

} // namespace rondo::plan
