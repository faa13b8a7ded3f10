#include "train/parallel/ps/state.h"

#include <algorithm>

namespace rondo::training::servers {

ServerState::ServerState(Communicator& comm, const Keys& keys, Replica& replica,
                         std::deque<PieceServer>& pieces)
    : comm_(comm), replica_(replica), pieces_(pieces) {
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(comm.size()); ++rank) {
    const bool serves = rank < keys.ranges.size();
    counts_.push_back(serves ? keys.ranges[rank].size() : 0);
    offsets_.push_back(serves ? keys.ranges[rank].begin : 0);
  }
}

void ServerState::allGather(float* values) {
  const auto rank = static_cast<std::size_t>(comm_.rank());
  comm_.allGatherv(values + offsets_[rank], counts_[rank], values, blocks(), DataType::float32);
}

/// Sets the kinds of arrays that the optimizer keeps. Pieces are cut from the end, so the first
/// server's last piece has the first keys, which are weights.
void ServerState::learnKinds() {
  if (!arrays_.empty()) return;
  const auto rank = static_cast<std::size_t>(comm_.rank());
  std::uint64_t count = 0;
  if (comm_.rank() == 0) {
    PieceServer& last = pieces_.back();
    const std::vector<StateArray> all = last.state();
    const std::size_t slices = last.slices().size();
    count = all.size() / slices;
    for (std::size_t kind = 0; kind < count; ++kind) {
      const std::string& name = all[kind * slices].name;
      kinds_.push_back(name.substr(0, name.size() - last.slices().front().name.size()));
    }
  }
  comm_.broadcast(&count, &count, 1, DataType::uint64, 0);
  arrays_.resize(count);
  for (AlignedVector<float>& array : arrays_)
    array.resize(rank == 0 ? replica_.values().size() : counts_[rank]);
}

template <class Copy>
void ServerState::forEach(const Copy& copy) {
  const std::size_t first = offsets_[static_cast<std::size_t>(comm_.rank())];
  for (PieceServer& piece : pieces_) {
    std::vector<StateArray> all = piece.state();
    const std::vector<Weight>& slices = piece.slices();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t key = slices[i % slices.size()].number;
      copy(all[i].values, arrays_[i / slices.size()].data() + (key - first));
    }
  }
}

void ServerState::gather() {
  learnKinds();
  forEach([](std::span<float> kept, float* place) { std::copy(kept.begin(), kept.end(), place); });
  const auto rank = static_cast<std::size_t>(comm_.rank());
  for (AlignedVector<float>& array : arrays_)
    comm_.gatherv(array.data(), counts_[rank], array.data(), blocks(), DataType::float32, 0);
}

void ServerState::scatter() {
  const auto rank = static_cast<std::size_t>(comm_.rank());
  for (AlignedVector<float>& array : arrays_)
    comm_.scatterv(array.data(), blocks(), array.data(), counts_[rank], DataType::float32, 0);
  forEach([](std::span<float> kept, const float* place) {
    std::copy(place, place + kept.size(), kept.begin());
  });
}

std::vector<StatePart> ServerState::held() {
  std::vector<StatePart> all;
  const float* const keys = replica_.values().data();
  const auto keyOf = [keys](const Weight& weight) {
    return static_cast<std::size_t>(weight.value - keys);
  };
  for (PieceServer& piece : pieces_) {
    const std::size_t begin = piece.piece().begin;
    const auto add = [&](const std::string& name, std::span<Weight* const> weights) {
      for (const Weight* weight : weights) {
        const std::size_t first = std::max(keyOf(*weight), begin);
        const std::size_t end =
            std::min(keyOf(*weight) + weight->size(), begin + piece.piece().count);
        if (first >= end) continue;
        all.push_back({name + weight->name, first - keyOf(*weight),
                       piece.values().subspan(first - begin, end - first)});
      }
    };
    add("weight.", replica_.weights());
    add("state.", replica_.state());
    std::vector<StateArray> arrays = piece.state();
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const std::size_t slice = i % piece.slices().size();
      const Weight& whole = *replica_.weights()[piece.piece().weights[slice]];
      all.push_back({"optimizer." + arrays[i].name, piece.slices()[slice].number - keyOf(whole),
                     arrays[i].values});
    }
  }
  return all;
}

std::vector<TensorMemory> ServerState::tensors() {
  std::vector<TensorMemory> all;
  for (const Weight* weight : replica_.weights())
    all.push_back({{"weight." + weight->name, weight->shape}, weight->value});
  for (const Weight* weight : replica_.state())
    all.push_back({{"state." + weight->name, weight->shape}, weight->value});
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
    for (const Weight* weight : replica_.weights())
      all.push_back({{"optimizer." + kinds_[kind] + weight->name, weight->shape},
                     arrays_[kind].data() + (weight->value - replica_.values().data())});
  return all;
}

} // namespace rondo::training::servers
