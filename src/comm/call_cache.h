// What is known of the calls that a rank has made before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "comm/call.h"
#include "engine/bound_plan.h"

namespace rondo::comm {

/// What depends on the shape of a call is found once per shape, and kept for a bounded number of
/// shapes. Looking up allocates nothing. Under the communicator's mutex.
class CallCache {
 public:
  /// A shape of call that was valid once, and what follows from it.
  struct Known {
    engine::BoundPlan plan;
    Buffers buffers;
    std::uint64_t signature = 0; ///< see sign()
  };

  CallCache(int rank, int size) : rank_(rank), size_(size) {}

  /// What is known of the call's shape, or null. Throws Error(invalid_argument) for a call that is
  /// wrong.
  Known* check(const Call& call) {
    if (!call.layout && last_ && last_key_ == keyOf(call) &&
        last_->buffers.fit(call.input, call.output))
      return last_;
    return call.layout ? checkUneven(call) : checkEven(call);
  }
  /// After check() gave null. Valid until the next add().
  Known& add(const Call& call, engine::BoundPlan plan);

 private:
  /// Collective, type, operator, direction and root, in one word; and the count.
  struct Key {
    std::uint64_t what = 0;
    std::size_t count = 0;
    bool operator==(const Key&) const = default;
  };
  /// Of a v-form. The tables are those of the bound plan that it leads to, or of the call in hand.
  struct UnevenKey {
    std::uint64_t what = 0;
    CallBlocks layout;
    bool operator==(const UnevenKey& other) const;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
    std::size_t operator()(const UnevenKey& key) const;
  };

  static std::uint64_t whatOf(const Call& call) {
    const auto op = reduces(call.collective) ? static_cast<std::uint64_t>(call.op.kind()) : 0;
    return static_cast<std::uint64_t>(call.collective) |
           static_cast<std::uint64_t>(call.type) << 8 | op << 16 |
           static_cast<std::uint64_t>(call.sending) << 24 |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32;
  }
  static Key keyOf(const Call& call) { return {whatOf(call), call.count}; }
  Known* checkEven(const Call& call);
  Known* checkUneven(const Call& call);

  const int rank_, size_;
  std::unordered_map<Key, std::unique_ptr<Known>, Hash> even_;
  std::unordered_map<UnevenKey, std::unique_ptr<Known>, Hash> uneven_;
  Key last_key_;
  Known* last_ = nullptr; ///< of last_key_
};

} // namespace rondo::comm
