// Sums floats over ranks that are threads of one process.
#pragma once

#include <barrier>
#include <cstddef>
#include <vector>

namespace rondo::test {

/// Sums floats of several threads in the order of their ranks.
class RankSum {
 public:
  explicit RankSum(int ranks) : given_(static_cast<std::size_t>(ranks)), barrier_(ranks) {}

  void operator()(int rank, float* values, std::size_t count) {
    given_[static_cast<std::size_t>(rank)].assign(values, values + count);
    barrier_.arrive_and_wait();
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = 0;
      for (const auto& one : given_) values[i] += one[i];
    }
    barrier_.arrive_and_wait();
  }

 private:
  std::vector<std::vector<float>> given_;
  std::barrier<> barrier_;
};

} // namespace rondo::test
