// An emulated switch between GPUs: an address range that no thread can access directly, and the
// windows of all ranks that it refers to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "support/host_block.h"

namespace rondo::test {

/// As long as it exists, the block below accesses all `windows` through the addresses from all()
/// on. More windows may be added until the first launch. `at`: an unused address range; null: any.
/// The accesses are plain, one window after the other, so the thread sanitizer finds those that no
/// barrier orders.
class HostSwitch {
 public:
  using Windows = std::shared_ptr<const std::vector<std::byte*>>;
  HostSwitch(Windows windows, std::size_t bytes, std::byte* at = nullptr);
  ~HostSwitch();
  HostSwitch(const HostSwitch&) = delete;
  HostSwitch& operator=(const HostSwitch&) = delete;

  std::byte* all() const { return all_; }

  /// The windows and the offset that an address refers to.
  struct Reached {
    const std::vector<std::byte*>& windows;
    std::size_t offset;
  };
  /// Aborts if no switch has this address.
  static Reached at(const void* address);

 private:
  const Windows windows_;
  const std::size_t bytes_;
  const bool reserves_;
  std::byte* all_;
  std::size_t place_ = 0;
};

class HostSwitchBlock : public HostBlock {
 public:
  using HostBlock::HostBlock;

  /// Starts with a different window at each place, because no order is guaranteed. Adds small
  /// floats in 32 bits.
  template <DataType kType, ReduceOp::Kind kOp>
  static kernels::cuda::Vector sum(const std::byte* address) {
    using F = kernels::cuda::Format<kType>;
    constexpr std::size_t kElements = sizeof(kernels::cuda::Vector) / sizeof(typename F::Element);
    const auto [windows, offset] = HostSwitch::at(address);
    typename F::Value sums[kElements] = {};
    for (std::size_t w = 0; w < windows.size(); ++w) {
      const std::byte* from = windows[(offset / sizeof sums + w) % windows.size()] + offset;
      for (std::size_t i = 0; i < kElements; ++i) {
        const auto next = F::load(kernels::cuda::PlainAccess::load<typename F::Element>(
            from + i * sizeof(typename F::Element)));
        sums[i] = w == 0 ? next : kernels::cuda::Operator<kOp>()(sums[i], next);
      }
    }
    typename F::Element codes[kElements];
    for (std::size_t i = 0; i < kElements; ++i) codes[i] = F::store(sums[i]);
    return std::bit_cast<kernels::cuda::Vector>(codes);
  }
  static void storeToAll(std::byte* address, const kernels::cuda::Vector& value) {
    const auto [windows, offset] = HostSwitch::at(address);
    for (std::byte* window : windows) kernels::cuda::PlainAccess::store(window + offset, value);
  }
  static void storeToAll(std::uint64_t* address, std::uint64_t value) {
    store(address, value, std::memory_order_relaxed);
  }
  static void releaseToAll(std::uint64_t* address, std::uint64_t value) {
    store(address, value, std::memory_order_release);
  }
  static void fenceAliases() {} // the host has one address for each place

 private:
  static void store(std::uint64_t* address, std::uint64_t value, std::memory_order order) {
    const auto [windows, offset] = HostSwitch::at(address);
    for (std::byte* window : windows)
      std::atomic_ref(*reinterpret_cast<std::uint64_t*>(window + offset)).store(value, order);
  }
};

} // namespace rondo::test
