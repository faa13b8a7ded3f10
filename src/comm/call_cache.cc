// Finds, keeps and evicts the shapes of calls.
#include "comm/call_cache.h"

#include <algorithm>
#include <utility>

namespace rondo::comm {

namespace {

/// Shapes kept per communicator. A bound plan is some kilobytes; programs repeat few shapes.
constexpr std::size_t kMaxEven = 512;
/// V-forms, and calls that name their algorithm, have a lower limit: programs may never repeat one.
constexpr std::size_t kMaxRare = 64;

/// At the limit, evicts every shape that no call in flight uses.
template <class Map>
void makeRoom(Map& known, std::size_t most) {
  if (known.size() >= most)
    std::erase_if(known, [](const auto& entry) { return entry.second->plan.users == 0; });
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

} // namespace

bool CallCache::RareKey::operator==(const RareKey& other) const {
  const auto equal = [](const Blocks& a, const Blocks& b) {
    return std::ranges::equal(a.counts, b.counts) && std::ranges::equal(a.offsets, b.offsets);
  };
  return call == other.call && named == other.named && equal(layout.input, other.layout.input) &&
         equal(layout.output, other.layout.output);
}

std::size_t CallCache::Hash::operator()(const Key& key) const {
  return (key.count * 0x9e3779b97f4a7c15u) ^ key.what;
}

std::size_t CallCache::Hash::operator()(const RareKey& key) const {
  std::uint64_t hash = (*this)(key.call);
  hash = mix(hash, reinterpret_cast<std::uintptr_t>(key.named.algorithm));
  for (const int part : {key.named.parameter, key.named.inner, key.named.outer})
    hash = mix(hash, static_cast<std::uint64_t>(part));
  for (const Blocks* blocks : {&key.layout.input, &key.layout.output})
    for (const auto& table : {blocks->counts, blocks->offsets})
      for (const std::size_t value : table) hash = mix(hash, value);
  return hash;
}

CallCache::Known* CallCache::checkEven(const Call& call) {
  const Key key = keyOf(call);
  if (!last_ || last_key_ != key) {
    const auto found = even_.find(key);
    last_ = found == even_.end() ? nullptr : found->second.get();
    last_key_ = key;
  }
  if (!last_ || !last_->buffers.fit(call.input, call.output)) validate(call, rank_, size_);
  return last_;
}

CallCache::Known* CallCache::checkRare(const Call& call, const plan::Choice* named) {
  const auto found = rare_.find({keyOf(call), call.layout ? *call.layout : CollectiveCall::Tables(),
                                 named ? *named : plan::Choice()});
  Known* const known = found == rare_.end() ? nullptr : found->second.get();
  if (known && known->buffers.fitUneven(call.input, call.output)) return known;
  validate(call, rank_, size_);
  if (known) known->buffers = buffersOf(call, rank_, size_);
  return known;
}

CallCache::Known CallCache::make(const Call& call, engine::BoundPlan plan, int rank, int size,
                                 const plan::Choice* named) {
  const Buffers buffers = buffersOf(call, rank, size);
  plan.of_input = {buffers.input_at, buffers.input_at + buffers.input_bytes};
  plan.of_output = {buffers.output_at, buffers.output_at + buffers.output_bytes};
  return {std::move(plan), buffers, sign(call, named)};
}

CallCache::Known& CallCache::add(const Call& call, engine::BoundPlan plan,
                                 const plan::Choice* named) {
  auto known = std::make_unique<Known>(make(call, std::move(plan), rank_, size_, named));
  if (call.layout || named) {
    makeRoom(rare_, kMaxRare);
    const plan::CallShape& shape = known->plan.shape;
    const CollectiveCall::Tables own{{shape.input.counts, shape.input.offsets},
                                     {shape.output.counts, shape.output.offsets}};
    RareKey key{keyOf(call), own, named ? *named : plan::Choice()};
    return *rare_.emplace(std::move(key), std::move(known)).first->second;
  }
  makeRoom(even_, kMaxEven);
  last_key_ = keyOf(call);
  return *(last_ = even_.emplace(last_key_, std::move(known)).first->second.get());
}

} // namespace rondo::comm
