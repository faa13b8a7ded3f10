// The budget of thread blocks of ranks that share a GPU.
#include "device/residency.h"
#include "support/test.h"

namespace rondo::test {

using device::copiesWithin;

// Proves: the blocks of all ranks of a device together never exceed its limit, and a plan too large
// for a rank's share is refused.
TEST_CASE("ranks that share a GPU never launch more blocks than it holds") {
  for (int blocks : {1, 2, 7, 132, 264})
    for (int ranks : {1, 2, 3, 8})
      for (std::uint32_t lanes : {1u, 2u, 4u})
        for (std::uint32_t wanted : {0u, 1u, 16u, 1000u}) {
          INFO(blocks << " blocks, " << ranks << " ranks, " << lanes << " lanes");
          if (static_cast<std::uint32_t>(ranks) * lanes > static_cast<std::uint32_t>(blocks)) {
            CHECK_THROWS_AS(copiesWithin({blocks, ranks}, lanes, wanted), Error);
            continue;
          }
          const std::uint32_t copies = copiesWithin({blocks, ranks}, lanes, wanted);
          CHECK(copies >= 1);
          CHECK(copies <= std::max(wanted, 1u));
          CHECK(copies * lanes * static_cast<std::uint32_t>(ranks) <=
                static_cast<std::uint32_t>(blocks));
          if (copies < wanted) // one more copy would not fit
            CHECK((copies + 1) * lanes * static_cast<std::uint32_t>(ranks) >
                  static_cast<std::uint32_t>(blocks) - static_cast<std::uint32_t>(blocks % ranks));
        }
}

} // namespace rondo::test
