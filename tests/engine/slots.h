// A transport with slots, for tests of bound plans.
#pragma once

#include <cstddef>
#include <string_view>

#include "support/nowhere.h"

namespace rondo::test {

/// It opens no channel: a test that runs steps sets the rings itself.
class Slots final : public Nowhere {
 public:
  std::string_view name() const override { return "slots"; }
  std::size_t slotBytes() const override { return 128 << 10; }
};

} // namespace rondo::test
