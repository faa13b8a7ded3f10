// The arithmetic of a step in the host engine: combines inputs, by one thread or several.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/bound_plan.h"
#include "engine/engine.h"
#include "engine/thread_team.h"

namespace rondo::engine {

/// The operands of one pass over a segment. combine() may change the pointers while it runs, and
/// restores them before it returns.
struct Operands {
  const void** ins;
  std::size_t in_count;
  void** outs;
  std::size_t out_count;
};

/// Adds `bytes`, which may be negative, to all pointers.
void advance(const Operands& operands, std::ptrdiff_t bytes);

/// Every output = the combination of the inputs. The raw input, if any, is scaled first.
void combine(const Run& run, const BoundStep& step, const Operands& operands, std::size_t count);

/// combine() on this thread and on others, which it owns: see Options::threads. Not thread-safe.
class Combiner {
 public:
  explicit Combiner(int threads) : thread_team_(threads) {}

  /// Does what combine() does. One thread does it all if it is too little to share.
  void combine(const Run& run, const BoundStep& step, const Operands& operands, std::size_t count);

 private:
  struct Part {
    std::vector<const void*> ins;
    std::vector<void*> outs;
  };

  ThreadTeam thread_team_;
  std::vector<Part> parts_; ///< operands of each thread; a member, so that no call allocates
};

} // namespace rondo::engine
