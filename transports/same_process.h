// Lends messages between ends of a channel that are in one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "transports/transport.h"

namespace rondo::transport {

/// Threads share an address space, so a loan is an address.
class SameProcess final : public Loans {
 public:
  std::optional<Loan> offer(const void* data, std::size_t, Use) override {
    return Loan{{reinterpret_cast<std::uintptr_t>(data)}};
  }
  const std::byte* find(const Loan& loan, std::size_t) override {
    return reinterpret_cast<const std::byte*>(loan.words[0]);
  }
  bool mayFree(const void*, std::size_t) const override { return false; }
};

} // namespace rondo::transport
