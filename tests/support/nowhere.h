// A transport for tests that need a fabric's bookkeeping and move the messages themselves.
#pragma once

#include "transports/transport.h"

namespace rondo::test {

/// Reaches every peer and opens nothing: only the ids of channel ends are used.
class Nowhere : public transport::Transport {
 public:
  std::string_view name() const override { return "nowhere"; }
  transport::Address address() const override { return {}; }
  std::size_t slotBytes() const override { return 0; }
  bool mapped() const override { return true; }
  bool reaches(const transport::Address&) const override { return true; }
  std::unique_ptr<transport::PendingPort> open(const transport::ChannelId&,
                                               const transport::Address&) override {
    return nullptr;
  }
};

} // namespace rondo::test
