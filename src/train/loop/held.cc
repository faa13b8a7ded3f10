// Copies what ranks hold, and sends it to the rank before.
#include "train/loop/held.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rondo/group.h"

namespace rondo::training {

void copy(std::span<const StatePart> parts, Shard& into) {
  into.labels.clear();
  into.values.clear();
  for (const StatePart& part : parts) {
    into.labels += part.name + " " + std::to_string(part.first) + " " +
                   std::to_string(part.values.size()) + "\n";
    into.values.insert(into.values.end(), part.values.begin(), part.values.end());
  }
}

void Copies::begin(std::int32_t changes, std::vector<Kept> kept) {
  changes_ = changes;
  kept_ = std::move(kept);
}

/// An epoch may have ended since: that changes the position but not the state.
void Copies::place(const Position& at) {
  for (Kept& one : kept_)
    if (one.at.total == at.total) one.at = at;
}

void Copies::renew(const Running& run, const Position& before) {
  place(before);
  Kept now;
  if (kept_.size() == 2) {
    now = std::move(kept_.front());
    kept_.erase(kept_.begin());
  }
  now.changes = changes_;
  now.shards = comm_.size();
  now.rank = comm_.rank();
  now.at = run.at;
  copy(run.strategy.held(), now.own);
  if (comm_.size() > 1) exchange(now);
  else now.next.reset();
  kept_.push_back(std::move(now));
}

void Copies::exchange(Kept& kept) {
  const int before = (comm_.rank() + comm_.size() - 1) % comm_.size();
  const int after = (comm_.rank() + 1) % comm_.size();
  const auto swap = [&](const void* out, std::size_t sent, void* in, std::size_t received,
                        DataType type) {
    Group both;
    comm_.send(out, sent, type, before);
    comm_.recv(in, received, type, after);
    both.end();
  };
  if (!told_) {
    const std::array<std::uint64_t, 2> own{kept.own.labels.size(), kept.own.values.size()};
    std::array<std::uint64_t, 2> sizes{};
    swap(own.data(), own.size(), sizes.data(), sizes.size(), DataType::uint64);
    next_labels_.resize(sizes[0]);
    next_values_ = sizes[1];
    swap(kept.own.labels.data(), own[0], next_labels_.data(), sizes[0], DataType::uint8);
    told_ = true;
  }
  Shard& next = kept.next ? *kept.next : kept.next.emplace();
  next.labels = next_labels_;
  next.values.resize(next_values_);
  swap(kept.own.values.data(), kept.own.values.size(), next.values.data(), next.values.size(),
       DataType::float32);
}

std::vector<Kept> Copies::take(const Position& at) {
  place(at);
  return std::move(kept_);
}

} // namespace rondo::training
