// Tests which GPU a rank uses.
#include "train/layers/compute.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {

using namespace training;

TEST_CASE("ranks of a machine use its GPUs in turn, unless RONDO_DEVICE names one") {
  CHECK(gpuOf(2, -1, 0) == 0);
  CHECK(gpuOf(2, -1, 1) == 1);
  CHECK(gpuOf(2, -1, 3) == 1);
  CHECK(gpuOf(2, 0, 1) == 0);
  CHECK(gpuOf(2, 1, 0) == 1);
  CHECK(says(caught([] { gpuOf(2, 2, 0); }), ErrorCode::invalid_argument, {"RONDO_DEVICE", "2"}));
}

TEST_CASE("a rank's number on its machine is the number of earlier ranks there") {
  const auto name = [](char letter) { return std::vector{std::byte(letter)}; };
  const std::vector<std::vector<std::byte>> machines = {name('a'), name('b'), name('a'), name('a'),
                                                        name('b')};
  std::vector<int> found;
  for (int rank = 0; rank < 5; ++rank) found.push_back(localRank(machines, rank));
  CHECK(found == std::vector{0, 0, 1, 2, 1});
}

} // namespace rondo::test
