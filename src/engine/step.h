// Runs single steps of the host engine's plans.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/aligned_buffer.h"
#include "engine/bound_plan.h"
#include "engine/combine.h"
#include "engine/engine.h"
#include "engine/network_channels.h"
#include "engine/reduction_check.h"

namespace rondo::engine {

/// Runs a step completely, or not at all. Owns the memory that steps share: scratch, and the
/// operands of the step in progress. No function blocks. Not thread-safe.
class StepRunner {
 public:
  struct Settings {
    int threads = 1;               ///< see Options::threads
    bool oversubscribed = false;   ///< ranks share processors
    bool checksum = false;         ///< see Options::checksum
    bool check_reductions = false; ///< see Options::check_reductions
  };
  StepRunner(Fabric& fabric, const Settings& settings);

  /// Call once for each plan, when its channels are open: decides how its steps move their data.
  void classify(BoundPlan& plan) const;
  /// Call at the start of each run of the plan: makes room for its steps.
  void makeRoom(BoundPlan& plan) {
    if (plan.scratch_bytes > 0) {
      scratch_.reserve(plan.scratch_bytes);
      plan.scratch = static_cast<std::byte*>(scratch_.data());
    }
    if (ins_.size() < plan.most_inputs) ins_.resize(plan.most_inputs);
    if (outs_.size() < plan.most_outputs) outs_.resize(plan.most_outputs);
  }

  /// Does the step if all its inputs have arrived and all its channels have room. Otherwise returns
  /// false and changes nothing that other steps can see; network channels may have moved bytes.
  bool attempt(Run& run, const BoundStep& step, std::size_t tile);

  NetworkChannels& network() { return network_; }
  /// Null: reductions are not checked.
  ReductionCheck* reductionCheck() { return reduction_check_.get(); }
  std::size_t scratchBytes() const { return scratch_.size(); }

 private:
  static bool copySmall(Run& run, const BoundStep& step, std::size_t tile);
  transport::Use useOf(const BoundPlan& bound) const;
  std::optional<transport::Loan> offerOf(const Run& run, const BoundStep& step, const End& end,
                                         std::size_t tile) const;
  static const std::byte* lentBy(const Run& run, const BoundStep& step, std::size_t tile);
  static void lend(const Run& run, const BoundStep& step, std::size_t tile, std::uint32_t checksum);
  Operands operandsOf(const Run& run, const BoundStep& step, std::size_t tile, std::size_t s);
  void combineAll(const Run& run, const BoundStep& step, const Operands& operands,
                  std::size_t count);
  void combineUnchecked(const Run& run, const BoundStep& step, const Operands& operands,
                        std::size_t count);
  void compute(const Run& run, const BoundStep& step, std::size_t tile);
  static void sendEarly(const Run& run, const BoundStep& step, const std::byte* from);
  static void sendAndStore(const Run& run, const BoundStep& step, std::size_t tile);
  std::uint32_t moveWithChecksum(const Run& run, const BoundStep& step, std::size_t tile);
  std::uint32_t combineWithChecksum(const Run& run, const BoundStep& step, std::size_t tile);
  std::uint32_t computeWithChecksum(const Run& run, const BoundStep& step, std::size_t tile);

  const bool oversubscribed_;
  const bool checksum_;
  NetworkChannels network_;
  const std::unique_ptr<Combiner> combiner_;              ///< null: this rank has one thread
  const std::unique_ptr<ReductionCheck> reduction_check_; ///< may be null
  base::AlignedBuffer scratch_;
  std::vector<const void*> ins_; ///< sized for the largest step of any plan so far
  std::vector<void*> outs_;
};

} // namespace rondo::engine
