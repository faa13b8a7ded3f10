// A transport that only has slots, for tests of bound plans.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "transports/transport.h"

namespace rondo::test {

/// It opens no channel: a test that runs steps sets the rings itself.
class Slots final : public transport::Transport {
 public:
  std::string_view name() const override { return "slots"; }
  transport::Address address() const override { return {}; }
  std::size_t slotBytes() const override { return 128 << 10; }
  bool mapped() const override { return true; }
  bool reaches(const transport::Address&) const override { return true; }
  std::unique_ptr<transport::PendingPort> open(const transport::ChannelId&,
                                               const transport::Address&) override {
    return nullptr;
  }
};

} // namespace rondo::test
