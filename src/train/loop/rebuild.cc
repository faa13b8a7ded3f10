// Finds the newest state of which the ranks have all shards, and collects them on rank 0, which
// distributes them as it does with those of a checkpoint.
#include "train/loop/rebuild.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <sstream>
#include <utility>

namespace rondo::training {

namespace {

/// What a rank tells the others about a state that it holds (see Kept), without the values.
struct Claim {
  std::int32_t any = 0, changes = 0, shards = 0, rank = 0, next = 0, epoch = 0;
  std::int32_t next_empty = 0; ///< the next rank holds nothing of the state
  std::int64_t total = -1;
};
struct Claims {
  std::int64_t saved = -1;
  std::array<Claim, 2> kept;
};

Claims claimsOf(const Held& held) {
  Claims claims{.saved = held.saved, .kept = {}};
  for (std::size_t i = 0; i < held.kept.size(); ++i) {
    const Kept& one = held.kept[i];
    claims.kept[i] = {.any = 1,
                      .changes = one.changes,
                      .shards = one.shards,
                      .rank = one.rank,
                      .next = one.next ? 1 : 0,
                      .epoch = one.at.epoch,
                      .next_empty = one.next && one.next->values.empty() ? 1 : 0,
                      .total = one.at.total};
  }
  return claims;
}

/// A state: after which step, and by which shards. Of two states of a step, the one after more
/// changes of the ranks is the newer.
using Key = std::pair<std::int64_t, std::int32_t>;

struct Found {
  Key key;
  std::vector<int> own, copy; ///< by shard: the rank that has it, and the one that has its copy; -1
  std::vector<bool> empty;    ///< by shard: its copy is known to be empty
  int furthest = -1;          ///< the rank whose position is furthest: an epoch may have ended
  std::int32_t epoch = 0;

  int source(std::size_t shard) const { return own[shard] >= 0 ? own[shard] : copy[shard]; }
  bool complete() const {
    for (std::size_t shard = 0; shard < own.size(); ++shard)
      if (source(shard) < 0) return false;
    return true;
  }
};

/// All states of which a rank has something, the newest first.
std::vector<Found> statesOf(const std::vector<Claims>& all) {
  std::map<Key, Found, std::greater<>> found;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (const Claim& claim : all[rank].kept) {
      if (claim.any == 0) continue;
      const Key key{claim.total, claim.changes};
      Found& state = found.try_emplace(key, Found{.key = key, .own = {}, .copy = {}, .empty = {}})
                         .first->second;
      state.own.resize(static_cast<std::size_t>(claim.shards), -1);
      state.copy.resize(static_cast<std::size_t>(claim.shards), -1);
      state.empty.resize(static_cast<std::size_t>(claim.shards));
      const auto shard = static_cast<std::size_t>(claim.rank);
      const auto note = [&](int& place) {
        if (place < 0) place = static_cast<int>(rank);
      };
      note(state.own[shard]);
      const std::size_t next = (shard + 1) % state.copy.size();
      if (claim.next != 0) note(state.copy[next]);
      if (claim.next_empty != 0) state.empty[next] = true;
      if (state.furthest >= 0 && state.epoch >= claim.epoch) continue;
      state.furthest = static_cast<int>(rank);
      state.epoch = claim.epoch;
    }
  std::vector<Found> states;
  for (auto& [key, state] : found) states.push_back(std::move(state));
  return states;
}

/// The shards of the newest generation that no survivor holds, as own or as copy.
std::string lostText(const std::vector<Found>& states) {
  Found state = states.front();
  for (const Found& older : states)
    for (std::size_t shard = 0; older.key.second == state.key.second && shard < state.own.size();
         ++shard)
      state.own[shard] = std::max(state.own[shard], older.source(shard));
  std::string ranks;
  int count = 0;
  for (std::size_t shard = 0; shard < state.own.size(); ++shard) {
    if (state.source(shard) >= 0) continue;
    ranks += (count++ == 0 ? "" : ", ") + std::to_string(shard);
  }
  return count == 1 ? "the shard of rank " + ranks + " is lost"
                    : "the shards of ranks " + ranks + " are lost";
}

std::string copiedText(const Found& state) {
  std::string text;
  const std::size_t shards = state.own.size();
  for (std::size_t shard = 0; shard < shards; ++shard)
    if (state.own[shard] < 0 && !state.empty[shard])
      text += (text.empty() ? "" : ", ") + std::string("the shard of rank ") +
              std::to_string(shard) + " comes from its copy on rank " +
              std::to_string((shard + shards - 1) % shards);
  return text;
}

const Kept* find(const Held& held, const Key& key) {
  for (const Kept& one : held.kept)
    if (Key{one.at.total, one.changes} == key) return &one;
  return nullptr;
}

/// All ranks get the mean of those that hold something.
void average(Communicator& comm, const Held& own, float holders, Strategy& strategy) {
  std::size_t at = 0;
  for (const StatePart& part : strategy.held()) {
    const std::span<float> values = part.values;
    std::vector<float> held(values.size()), sums(values.size());
    if (!own.kept.empty())
      std::copy_n(own.kept.back().own.values.data() + at, values.size(), held.data());
    at += values.size();
    comm.allReduce(held.data(), sums.data(), sums.size(), DataType::float32, ReduceOp::sum);
    std::transform(sums.begin(), sums.end(), values.begin(),
                   [&](float sum) { return sum / holders; });
  }
}

void write(const Shard& shard, std::span<const TensorMemory> tensors) {
  std::istringstream labels(shard.labels);
  std::string name;
  const float* values = shard.values.data();
  for (std::size_t first = 0, count = 0; labels >> name >> first >> count; values += count) {
    const auto tensor = std::find_if(tensors.begin(), tensors.end(), [&](const TensorMemory& one) {
      return one.label.name == name;
    });
    if (tensor == tensors.end() || (first + count) * sizeof(float) > tensor->label.bytes())
      throw Error(ErrorCode::mismatch, "train: the run has no tensor " + name + " of this size");
    std::copy_n(values, count, static_cast<float*>(tensor->data) + first);
  }
}

/// Writes all shards into the tensors of rank 0.
void collect(Communicator& comm, const Found& state, const Kept* own,
             std::span<const TensorMemory> tensors) {
  for (std::size_t shard = 0; shard < state.own.size(); ++shard) {
    const int source = state.source(shard);
    const bool here = comm.rank() == source;
    const bool copied = state.own[shard] < 0;
    const Shard* const one = !here ? nullptr : copied ? &*own->next : &own->own;
    if (here && source == 0) write(*one, tensors);
    if (source == 0) continue;
    if (here) {
      const std::array<std::uint64_t, 2> sizes{one->labels.size(), one->values.size()};
      comm.send(sizes.data(), sizes.size(), DataType::uint64, 0);
      comm.send(one->labels.data(), sizes[0], DataType::uint8, 0);
      comm.send(one->values.data(), sizes[1], DataType::float32, 0);
    } else if (comm.rank() == 0) {
      std::array<std::uint64_t, 2> sizes{};
      comm.recv(sizes.data(), sizes.size(), DataType::uint64, source);
      Shard received{std::string(sizes[0], ' '), std::vector<float>(sizes[1])};
      comm.recv(received.labels.data(), sizes[0], DataType::uint8, source);
      comm.recv(received.values.data(), sizes[1], DataType::float32, source);
      write(received, tensors);
    }
  }
}

} // namespace

Rebuilt rebuild(Communicator& comm, const Held& own, const Running& run) {
  std::vector<Claims> all(static_cast<std::size_t>(comm.size()));
  const Claims claims = claimsOf(own);
  comm.allGather(&claims, all.data(), sizeof claims, DataType::uint8);
  Rebuilt result;
  int holders = 0;
  for (const Claims& one : all) {
    result.saved = std::max(result.saved, one.saved);
    holders += one.kept[0].any;
    for (const Claim& claim : one.kept)
      result.changes = std::max(result.changes, claim.changes + 1);
  }
  const std::vector<Found> states = statesOf(all);
  if (states.empty()) return result;
  const auto state =
      std::find_if(states.begin(), states.end(), [](const Found& one) { return one.complete(); });
  result.total = states.front().key.first;
  result.shards = lostText(states);
  result.state = Rebuilt::State::lost;
  if (state == states.end()) return result;
  const Kept* const kept = find(own, state->key);
  const bool differs = run.strategy.differs();
  if (differs) average(comm, own, static_cast<float>(holders), run.strategy);
  const Snapshot snapshot = run.strategy.snapshot();
  if (!differs) collect(comm, *state, kept, snapshot.tensors);
  run.report = own.report;
  if (kept != nullptr) run.at = kept->at;
  shareValues(comm, run, state->furthest);
  run.strategy.adopt(run.at);
  result.state = Rebuilt::State::present;
  result.total = state->key.first;
  result.shards = copiedText(*state);
  if (kept != nullptr) result.kept.push_back(*kept);
  return result;
}

} // namespace rondo::training
