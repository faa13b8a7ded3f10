// Plans of all ranks in a compact form for simulation: equal plans are kept once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "plan/plan.h"

namespace rondo::model {

/// A step of a plan. `refs` of the program holds its receives, then its sends.
struct Op {
  std::uint32_t chunks = 0;
  std::uint32_t refs = 0, receives = 0, sends = 0;
  std::uint32_t after = 0, afters = 0; ///< range in Program::after
  std::uint16_t locals = 0;            ///< operands in the rank's memory
  bool output = false;
  bool lasting = false;  ///< the value lies in one piece of input or output, so it can be lent
  bool own_copy = false; ///< copies input to output: nothing is copied in place
  bool barrier = false;
  bool reads_all = false, writes_all = false; ///< all ranks' windows, by a switch
};

/// One rank's plan with peers as distances, so that ranks at different places of a pattern can have
/// the same program.
struct Program {
  struct Port {
    std::uint32_t distance = 0; ///< of the peer: (peer - rank) modulo the ranks
    int index = 0;
    std::uint32_t lane = 0;

    bool operator==(const Port&) const = default;
  };
  struct After {
    std::uint32_t lane = 0, step = 0; ///< step counted from the begin of its lane

    bool operator==(const After&) const = default;
  };

  std::uint32_t chunks_per_block = 1;
  bool scratch = false;
  std::vector<std::uint32_t> lanes; ///< first op of each lane, and the number of ops
  std::vector<Op> ops;
  std::vector<std::uint32_t> refs; ///< indices into `ins` and `outs`
  std::vector<After> after;
  std::vector<Port> ins;
  std::vector<Port> outs; ///< ascending by (distance, index)

  bool operator==(const Program& other) const;
  bool switched() const;
  /// Index in `outs`, or outs.size().
  std::size_t findOut(std::uint32_t distance, int index) const;
};

/// Messages and chunks that a rank sends in one tile.
struct Sent {
  double chunks = 0;
  std::uint64_t messages = 0;
};
Sent sentBy(const Program& program);

/// The programs of all ranks. Builds one plan at a time, so the memory needed is that of the
/// programs that differ.
class Programs {
 public:
  /// `algorithm` must support the spec. Throws Error(invalid_argument) if a plan uses a channel to
  /// a rank that does not exist; TooLarge for plans of many millions of channels or steps.
  Programs(const plan::Algorithm& algorithm, const plan::Spec& spec);
  /// Of plans of all ranks, for example imported ones.
  explicit Programs(std::span<const plan::RankPlan> plans);

  int ranks() const { return static_cast<int>(of_.size()); }
  const Program& of(int rank) const { return all_[of_[static_cast<std::size_t>(rank)]]; }
  /// Whether all ranks have the same program: the pattern looks the same from every rank.
  bool symmetric() const { return all_.size() == 1; }
  const plan::RankPlan& first() const { return first_; } ///< rank 0's plan

 private:
  void add(const plan::RankPlan& plan);

  plan::RankPlan first_;
  std::vector<Program> all_;
  std::vector<std::uint32_t> of_;                               ///< by rank
  std::unordered_multimap<std::uint64_t, std::uint32_t> known_; ///< by hash: index in all_
  std::size_t channels_ = 0, steps_ = 0;                        ///< of all ranks
  std::size_t kept_ = 0;                                        ///< steps of all_
};

} // namespace rondo::model
