#include "train/parallel/ps/keys.h"

#include <algorithm>
#include <string>

#include "rondo/error.h"
#include "train/aligned.h"

namespace rondo::training::servers {

namespace {

constexpr std::size_t kLine = kAlignment / sizeof(float);

/// The first key of a weight.
std::size_t keyOf(const Weight& weight, std::span<const float> values) {
  return static_cast<std::size_t>(weight.value - values.data());
}

/// Cuts a range of keys of one kind into pieces, the last keys first.
void cut(Range keys, bool state, std::size_t most, std::vector<Piece>& into) {
  for (std::size_t end = keys.end; end > keys.begin;) {
    const std::size_t count = std::min(most, end - keys.begin);
    into.push_back({.begin = end - count, .count = count, .state = state, .weights = {}});
    end -= count;
  }
}

Range meet(Range a, Range b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

} // namespace

Keys layOut(std::span<const float> values, std::span<Weight* const> weights,
            std::span<Weight* const> state, int servers, std::size_t most) {
  Keys keys{.count = values.size(), .ranges = {}, .pieces = {}};
  const std::size_t learned = state.empty() ? values.size() : keyOf(*state.front(), values);
  const std::size_t lines = values.size() / kLine;
  const auto parts = static_cast<std::size_t>(servers);
  if (lines < parts)
    throw Error(ErrorCode::invalid_argument, "train: servers is " + std::to_string(servers) +
                                                 ", but the model has only " +
                                                 std::to_string(lines) + " cache lines of values");
  for (std::size_t server = 0; server < parts; ++server) {
    const Range own = share(lines, server, parts);
    const Range range = keys.ranges.emplace_back(Range{own.begin * kLine, own.end * kLine});
    std::vector<Piece>& pieces = keys.pieces.emplace_back();
    cut(meet(range, {learned, values.size()}), true, most, pieces);
    cut(meet(range, {0, learned}), false, most, pieces);
    for (Piece& piece : pieces)
      for (std::size_t i = 0; i < weights.size() && !piece.state; ++i) {
        const std::size_t begin = keyOf(*weights[i], values);
        if (meet({begin, begin + weights[i]->size()}, {piece.begin, piece.begin + piece.count})
                .size() > 0)
          piece.weights.push_back(i);
      }
  }
  return keys;
}

std::vector<Weight> slices(const Piece& piece, std::span<const float> values,
                           std::span<Weight* const> weights, float* piece_values) {
  std::vector<Weight> all;
  for (const std::size_t i : piece.weights) {
    const Weight& whole = *weights[i];
    const std::size_t begin = keyOf(whole, values);
    const Range part =
        meet({begin, begin + whole.size()}, {piece.begin, piece.begin + piece.count});
    Weight& one = all.emplace_back();
    one.name = whole.name;
    one.shape = {part.size()};
    one.number = part.begin;
    one.decays = whole.decays;
    one.value = piece_values + (part.begin - piece.begin);
  }
  return all;
}

} // namespace rondo::training::servers
