// Models barriers between ranks with windows (see kernels/cuda/plan/PROOFS.md, "Windows and
// meetings"). Explores every run of some tiles of the three calls that nvls serves, alone and one
// after the other. Each edge of the argument is left out in a variant, which must fail.
#include <string>
#include <vector>

#include "protocols/explore.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using protocols::Memory;
using protocols::Model;

constexpr int kRanks = 2;

/// The work of one tile in a plan of nvls; each share is a word.
enum class Tile { allreduce, reducescatter, allgather };

enum class Lacking {
  nothing,
  done_first, ///< the order of a rank's accesses before its arrival (fence, barrier, release)
  met_first,  ///< of all arrivals before the rank's next accesses (acquire, barrier, fence)
  before,     ///< the barrier before other ranks' windows are accessed
  behind,     ///< the barrier after that
  two_calls,  ///< two places, so that a barrier's label does not overwrite that of the one before
};

/// A rank's window: its shares, then each rank's arrivals: a number, and the labels of barriers.
struct Window {
  static constexpr std::size_t kWords = kRanks * (1 + 3);
  std::size_t base;
  explicit Window(int rank) : base(kWords * static_cast<std::size_t>(rank)) {}
  std::size_t share(int r) const { return base + static_cast<std::size_t>(r); }
  std::size_t number(int r) const { return base + kRanks + 3 * static_cast<std::size_t>(r); }
  std::size_t label(int r, int meeting, Lacking without) const {
    return number(r) +
           (without == Lacking::two_calls ? 1 : 1 + static_cast<std::size_t>(meeting % 2));
  }
};

/// The value of a share in tile n: staged by a rank, or the same for all.
int staged(int n, int rank) { return 10 * n + 1 + rank; }
int result(int n) { return 10 * n + 9; }

class Rank {
 public:
  Rank(Model& model, int rank, Lacking without) : model_(model), rank_(rank), without_(without) {}

  void tile(Tile kind, int n) {
    if (kind != Tile::allgather)
      all([&](int share) { return write(Window(rank_).share(share), staged(n, rank_)); });
    if (without_ != Lacking::before) meet();
    if (kind == Tile::allgather) {
      all([&](int r) { return write(Window(r).share(rank_), result(n)); });
    } else {
      all([&](int r) { return read(Window(r).share(rank_), staged(n, r)); });
      if (kind == Tile::allreduce)
        all([&](int r) { return write(Window(r).share(rank_), result(n)); });
    }
    if (without_ != Lacking::behind) meet();
    if (kind != Tile::reducescatter)
      all([&](int share) { return read(Window(rank_).share(share), result(n)); });
  }

 private:
  using Act = std::function<std::string(Memory&)>;
  static Act write(std::size_t word, int value) {
    return [=](Memory& m) {
      m[word] = value;
      return std::string();
    };
  }
  static Act read(std::size_t word, int value) {
    return [=](Memory& m) {
      return m[word] == value ? std::string()
                              : std::to_string(value) + " read as " + std::to_string(m[word]);
    };
  }

  /// In any order, like the threads of a block, when the earlier operations are done.
  template <class Make>
  void all(const Make& make) {
    std::vector<std::size_t> now;
    for (int i = 0; i < kRanks; ++i) now.push_back(model_.add(done_, nullptr, make(i)));
    done_ = now;
  }

  void meet() {
    const int number = ++meetings_;
    const auto first = without_ == Lacking::done_first ? arrived_ : done_;
    std::vector<std::size_t> told;
    for (int r = 0; r < kRanks; ++r) {
      const std::size_t label =
          model_.add(first, nullptr, write(Window(r).label(rank_, number, without_), number));
      told.push_back(model_.add({label}, nullptr, write(Window(r).number(rank_), number)));
    }
    std::vector<std::size_t> met;
    for (int r = 0; r < kRanks; ++r) {
      const std::size_t there = model_.add(
          told, [=, at = Window(rank_).number(r)](const Memory& m) { return m[at] >= number; },
          nullptr);
      met.push_back(
          model_.add({there}, nullptr, read(Window(rank_).label(r, number, without_), number)));
    }
    arrived_ = met;
    done_ = without_ == Lacking::met_first ? told : met;
    if (without_ == Lacking::done_first) done_.insert(done_.end(), first.begin(), first.end());
  }

  Model& model_;
  const int rank_;
  const Lacking without_;
  int meetings_ = 0;
  std::vector<std::size_t> done_, arrived_;
};

protocols::Model::Result explore(const std::vector<Tile>& tiles, Lacking without) {
  Model model(kRanks * Window::kWords);
  for (int r = 0; r < kRanks; ++r) {
    Rank rank(model, r, without);
    for (int n = 0; n < static_cast<int>(tiles.size()); ++n)
      rank.tile(tiles[static_cast<std::size_t>(n)], n + 1);
  }
  return model.explore();
}

} // namespace

// Proves: two barriers per tile suffice for windows that serve one tile after the other of any
// call, with one more label than is in use. None of the barriers and orders can be left out.
TEST_CASE("protocols: barriers make the right contents of windows visible to other ranks") {
  using enum Tile;
  const std::vector<std::vector<Tile>> calls = {
      {allreduce, allreduce},     {reducescatter, reducescatter}, {allgather, allgather},
      {reducescatter, allreduce}, {allgather, reducescatter},     {allreduce, allgather}};
  for (const auto& tiles : calls) {
    const auto whole = explore(tiles, Lacking::nothing);
    INFO(static_cast<int>(tiles[0])
         << ", " << static_cast<int>(tiles[1]) << ": " << whole.states << " states");
    CHECK(whole.wrong == "");
    CHECK(whole.states > 40);
    for (const Lacking twin : {Lacking::done_first, Lacking::met_first, Lacking::before,
                               Lacking::behind, Lacking::two_calls}) {
      INFO("without " << static_cast<int>(twin));
      CHECK(explore(tiles, twin).wrong != "");
    }
  }
}

} // namespace rondo::test
