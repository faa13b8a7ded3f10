// Explores every run of a small model: threads are ordered operations, memory is an array of
// numbers.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rondo::test::protocols {

using Memory = std::vector<int>;

/// An atomic operation. It may run when the operations before it are done and `ready` returns true.
/// Unordered operations of a thread run in any order, as a machine may reorder plain accesses. So
/// an order that a protocol needs is an edge here, whatever provides it (a barrier, a release, an
/// acquire, use of the same word). Leaving the edge out gives a weaker protocol.
struct Operation {
  std::vector<std::size_t> after;
  std::function<bool(const Memory&)> ready;
  /// Changes the memory. Returns an error text, or nothing.
  std::function<std::string(Memory&)> act;
};

class Model {
 public:
  explicit Model(std::size_t words) : start_(words) {}

  std::size_t add(std::vector<std::size_t> after, std::function<bool(const Memory&)> ready,
                  std::function<std::string(Memory&)> act) {
    operations_.push_back({std::move(after), std::move(ready), std::move(act)});
    return operations_.size() - 1;
  }

  struct Result {
    std::string wrong; ///< of the first run that fails; "stuck" if no operation can run
    std::size_t states = 0;
  };
  /// Explores all runs, each state once.
  Result explore() const {
    Result result;
    std::set<State> seen;
    std::vector<State> open{{std::vector<bool>(operations_.size()), start_}};
    while (!open.empty() && result.wrong.empty()) {
      const State state = std::move(open.back());
      open.pop_back();
      if (!seen.insert(state).second) continue;
      bool moved = false, all = true;
      for (std::size_t o = 0; o < operations_.size(); ++o) {
        if (state.first[o]) continue;
        all = false;
        if (!may(o, state)) continue;
        moved = true;
        State next = state;
        next.first[o] = true;
        if (operations_[o].act) result.wrong = operations_[o].act(next.second);
        if (!result.wrong.empty()) break;
        open.push_back(std::move(next));
      }
      if (!moved && !all) result.wrong = "stuck";
    }
    result.states = seen.size();
    return result;
  }

 private:
  using State = std::pair<std::vector<bool>, Memory>; ///< the operations done, and the memory

  bool may(std::size_t operation, const State& state) const {
    const Operation& one = operations_[operation];
    for (const std::size_t before : one.after)
      if (!state.first[before]) return false;
    return !one.ready || one.ready(state.second);
  }

  Memory start_;
  std::vector<Operation> operations_;
};

} // namespace rondo::test::protocols
