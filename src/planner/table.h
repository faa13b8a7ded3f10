// Decisions as a value: the algorithm of each collective for each size of block.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plan/registry.h"

namespace rondo::planner {

/// Immutable once it is filled, so that all ranks and threads may read it.
class Table {
 public:
  /// The choice for blocks of up to `up_to` bytes.
  struct Entry {
    std::size_t up_to = 0;
    plan::Choice choice;
  };

  /// Null if the table does not decide this call.
  const plan::Choice* find(Collective collective, std::size_t bytes) const;
  /// `entries`: in ascending order of sizes; the last one is for all larger blocks. Neighbours of
  /// equal choice become one.
  void set(Collective collective, const std::vector<Entry>& entries);
  bool empty() const { return rows_.empty(); }

  /// A line for each collective: "allreduce: oneshot to 8192, direct to 1048576, ring".
  std::string text() const;
  /// Reads text(). Throws Error(data) "WHAT:LINE: reason".
  static Table parse(std::string_view text, const std::string& what);

 private:
  std::map<Collective, std::vector<Entry>> rows_;
};

} // namespace rondo::planner
