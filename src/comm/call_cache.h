// Remembers the shapes of the calls that a rank has made, with their bound plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "comm/call.h"
#include "engine/bound_plan.h"
#include "observe/recorder.h"
#include "plan/registry.h"

namespace rondo::comm {

/// Everything that depends only on a call's shape is computed once and kept, for a bounded number
/// of shapes. A lookup allocates nothing. All functions need the communicator's mutex.
class CallCache {
 public:
  /// A call shape that has been validated, with its plan and signature.
  struct Known {
    engine::BoundPlan plan;
    Buffers buffers;
    std::uint64_t signature = 0; ///< see sign()
    observe::CallFacts recorded = {};
  };

  CallCache(int rank, int size) : rank_(rank), size_(size) {}

  /// The entry for the call's shape, or null. Throws Error(invalid_argument) for a wrong call.
  Known* check(const Call& call) {
    if (!call.layout && last_ && last_key_ == keyOf(call) &&
        last_->buffers.fit(call.input, call.output))
      return last_;
    return call.layout ? checkRare(call, nullptr) : checkEven(call);
  }
  /// The same for a call that names its algorithm.
  Known* check(const Call& call, const plan::Choice& named) { return checkRare(call, &named); }
  /// Makes the entry of a valid call with this plan. `named`: see sign().
  static Known make(const Call& call, engine::BoundPlan plan, int rank, int size,
                    const plan::Choice* named = nullptr);
  /// Call it after check() returned null. The reference is valid until the next add().
  Known& add(const Call& call, engine::BoundPlan plan, const plan::Choice* named = nullptr);

 private:
  /// Collective, type, operator, direction and root in one word, and the count.
  struct Key {
    std::uint64_t what = 0;
    std::size_t count = 0;
    bool operator==(const Key&) const = default;
  };
  /// Key of a v-form, or of a call that names its algorithm. The tables belong to the entry's bound
  /// plan, or to the call being looked up.
  struct RareKey {
    Key call;
    CollectiveCall::Tables layout;
    plan::Choice named;
    bool operator==(const RareKey& other) const;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
    std::size_t operator()(const RareKey& key) const;
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
  Known* checkRare(const Call& call, const plan::Choice* named);

  const int rank_, size_;
  std::unordered_map<Key, std::unique_ptr<Known>, Hash> even_;
  std::unordered_map<RareKey, std::unique_ptr<Known>, Hash> rare_;
  Key last_key_;
  Known* last_ = nullptr; ///< the entry of last_key_
};

} // namespace rondo::comm
