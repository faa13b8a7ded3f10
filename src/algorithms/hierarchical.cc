// hierarchical: inside nodes first, then between nodes, then inside nodes again.
//
// This algorithm has no schedule of its own. It divides the work into collectives among the ranks
// of a node and collectives among ranks of different nodes. Each is done by an algorithm that knows
// only its own ranks (plan/compose.h); "hierarchical(linear,ring)" names those inside and between
// nodes.
//
// If all nodes have g ranks, the ranks with the same place in their nodes form a rail, and all g
// rails are used at the same time: AllReduce = ReduceScatter inside, AllReduce on each rail,
// Allgather inside. ReduceScatter, Allgather and AlltoAll need two steps. Otherwise, and if there
// is a root, each node has a leader: gather or reduce to the leader, the collective among leaders,
// scatter or broadcast from it. AllReduce can also use "hierarchical/k": k leaders per node, each
// for 1/k of the data; the default is the number of ranks of the smallest node. The root is the
// leader of its node.
//
// Layouts with more levels are divided again: the part inside a node is itself hierarchical.
//
// Bytes between N nodes in total, with the default algorithms: AllReduce 2 (N-1) n for any sizes of
// nodes; a flat ring needs 2 (p-1)/p n for each of its edges between nodes. Allgather,
// ReduceScatter p (N-1) n. Time: the sum of the parts' times.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "plan/builder.h"
#include "plan/compose.h"
#include "plan/division.h"
#include "plan/registry.h"

namespace rondo::algorithms {

extern const plan::Algorithm hierarchical;

namespace {

using namespace plan;

/// The first of these that can do a part is used. Between up to 8 nodes, all nodes may send to all
/// others at once; a ring waits for its links one after the other. 4 nodes of 2 ranks, links of 1
/// Gb/s, AllReduce of 16 MiB: direct 221, ring 344 ms (medians of 6 runs).
constexpr std::string_view kInside[] = {"direct", "linear"};
constexpr std::string_view kBetweenFew[] = {"direct", "chain", "linear", "dissemination"};
constexpr std::string_view kBetweenMany[] = {"ring", "chain", "linear", "pairwise",
                                             "dissemination"};
constexpr int kFew = 8;

/// Picks the requested algorithm, or the first of those above that can do the part.
bool pick(const Spec& whole, Level level, Part& part) {
  const int asked = level == Level::inside ? whole.inner : whole.outer;
  const Layout inside = std::exchange(part.spec.layout, {});
  const auto take = [&](const Algorithm& algorithm) {
    if (!serves(algorithm, part)) return false;
    part.algorithm = &algorithm;
    return true;
  };
  if (asked != 0 && part.spec.ranks > 1)
    return take(*plan::algorithms()[static_cast<std::size_t>(asked) - 1]);
  if (inside.clustered()) {
    part.spec.layout = inside;
    if (take(hierarchical)) return true;
    part.spec.layout = {};
  }
  std::span<const std::string_view> names = kInside;
  if (level == Level::between) names = kBetweenMany;
  if (level == Level::between && part.spec.ranks <= kFew) names = kBetweenFew;
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return take(*findAlgorithm(name)); });
}

/// Divides one collective into parts.
class Composition : private Division {
 public:
  Composition(const Spec& spec, int rank) : Division(spec, rank, pick) {}

  /// None if the parameter or the requested algorithms cannot be used.
  std::optional<std::vector<Phased>> parts() {
    if (spec().parameter < 0 || spec().parameter > mostLeaders()) return {};
    const bool rails =
        smallest() == largest() && (spec().parameter == 0 || spec().parameter == smallest());
    if (!rails && spec().parameter > 1 && spec().collective != Collective::allreduce) return {};
    divide(rails);
    if (failed() && spec().collective == Collective::allreduce && rails) {
      again();
      allReduceByShares();
    }
    if (failed()) return {};
    return take();
  }

 private:
  int mostLeaders() const {
    switch (spec().collective) {
      case Collective::allreduce: return smallest();
      case Collective::reducescatter:
      case Collective::allgather:
      case Collective::alltoall: return smallest() == largest() ? smallest() : 1;
      default: return 1;
    }
  }

  void divide(bool rails) {
    switch (spec().collective) {
      case Collective::allreduce: return rails ? allReduceByRails() : allReduceByShares();
      case Collective::reduce: return reduce();
      case Collective::reducescatter:
        return rails ? reduceScatterByRails() : reduceScatterByLeaders();
      case Collective::broadcast: return broadcast();
      case Collective::scatter: return scatter();
      case Collective::gather: return gather();
      case Collective::allgather: return rails ? allGatherByRails() : allGatherByLeaders();
      case Collective::alltoall: return rails ? allToAllByRails() : allToAllByLeaders();
      case Collective::barrier: return barrier();
      default: return; // nothing is composed, as for scans, which go by the ranks' order
    }
  }

  // The collectives.

  /// Share i of the data is reduced to rank i of each node, reduced among these ranks, and shared
  /// by them.
  void allReduceByShares() {
    const int shares = spec().parameter == 0 ? smallest() : spec().parameter;
    const auto held = [&](int v) { return size(v) == 1 ? Space::input : Space::output; };
    for (int i = 0; i < shares; ++i)
      inside(
          Collective::reduce, [&](int) { return Shape{.root = i, .shares = shares}; },
          [&](Part& part, int v, int own) {
            part.input = {one(Space::input, 0, i)};
            if (own == i) part.output = {one(held(v), 0, i)};
          });
    next();
    for (int i = 0; i < shares; ++i)
      add(Level::between, Collective::allreduce, rail(i), {.shares = shares},
          [&](Part& part, int v) {
            part.input = {one(held(v), 0, i)};
            part.output = {one(Space::output, 0, i)};
          });
    next();
    for (int i = 0; i < shares; ++i)
      inside(
          Collective::broadcast, [&](int) { return Shape{.root = i, .shares = shares}; },
          [&](Part& part, int, int own) {
            part.output = {one(Space::output, 0, i)};
            if (own == i) part.input = part.output;
          });
  }

  void allReduceByRails() {
    const int shares = smallest();
    const auto scattered = [&](int) { return Shape{.shares = shares, .scattered = true}; };
    const auto all = [&](Space space) {
      std::vector<Units> places;
      for (int i = 0; i < shares; ++i) places.push_back(one(space, 0, i));
      return places;
    };
    inside(Collective::reducescatter, scattered, [&](Part& part, int, int own) {
      part.input = all(Space::input);
      part.output = {one(Space::output, 0, own)};
    });
    next();
    for (int i = 0; i < shares; ++i)
      add(Level::between, Collective::allreduce, rail(i), {.shares = shares},
          [&](Part& part, int) { part.input = part.output = {one(Space::output, 0, i)}; });
    next();
    inside(Collective::allgather, scattered, [&](Part& part, int, int own) {
      part.input = {one(Space::output, 0, own)};
      part.output = all(Space::output);
    });
  }

  void reduce() {
    const auto held = [&](int v) {
      return size(v) == 1 ? Space::input : isRoot() ? Space::output : Space::scratch;
    };
    inside(
        Collective::reduce, [&](int v) { return toLeader(v); },
        [&](Part& part, int v, int own) {
          part.input = {one(Space::input)};
          if (own == leader(v)) part.output = {one(held(v))};
        });
    next();
    betweenLeaders(Collective::reduce, {}, [&](Part& part, int v) {
      part.input = {one(held(v))};
      if (isRoot()) part.output = {one(Space::output)};
    });
  }

  void broadcast() {
    betweenLeaders(Collective::broadcast, {}, [&](Part& part, int) {
      if (isRoot()) part.input = {one(Space::input)};
      part.output = {one(Space::output)};
    });
    inside(
        Collective::broadcast, [&](int v) { return toLeader(v); },
        [&](Part& part, int v, int own) {
          part.output = {one(Space::output)};
          if (own == leader(v)) part.input = part.output;
        });
  }

  void gather() {
    // The place of a node's blocks on its leader; at the root it is their place in the output.
    const auto held = [&](int v) {
      return isRoot() ? blocks(Space::output, node(v)) : blocks(Space::scratch, 0, size(v));
    };
    inside(
        Collective::gather, [&](int v) { return toLeader(v); },
        [&](Part& part, int v, int own) {
          part.input = {one(Space::input)};
          if (own == leader(v))
            for (const Unit& unit : held(v)) part.output.push_back({unit});
        });
    next();
    betweenLeaders(Collective::gather, {.weights = sizes()}, [&](Part& part, int v) {
      part.input = {held(v)};
      if (!isRoot()) return;
      for (const auto& members : members()) part.output.push_back(blocks(Space::output, members));
    });
  }

  void scatter() {
    const auto held = [&](int v) {
      return isRoot() ? blocks(Space::input, node(v)) : blocks(Space::scratch, 0, size(v));
    };
    betweenLeaders(Collective::scatter, {.weights = sizes()}, [&](Part& part, int v) {
      part.output = {held(v)};
      if (!isRoot()) return;
      for (const auto& members : members()) part.input.push_back(blocks(Space::input, members));
    });
    inside(
        Collective::scatter, [&](int v) { return toLeader(v); },
        [&](Part& part, int v, int own) {
          part.output = {one(Space::output)};
          if (own == leader(v))
            for (const Unit& unit : held(v)) part.input.push_back({unit});
        });
  }

  void allGatherByLeaders() {
    inside(
        Collective::allgather, [](int) { return Shape{}; },
        [&](Part& part, int v, int) {
          part.input = {one(Space::input)};
          for (const int rank : node(v)) part.output.push_back(one(Space::output, rank));
        });
    next();
    betweenLeaders(Collective::allgather, {.weights = sizes()}, [&](Part& part, int v) {
      part.input = {blocks(Space::output, node(v))};
      for (const auto& members : members()) part.output.push_back(blocks(Space::output, members));
    });
    inside(
        Collective::broadcast, [&](int v) { return toLeader(v, p() - size(v)); },
        [&](Part& part, int v, int own) {
          std::vector<int> foreign;
          for (int u = 0; u < nodes(); ++u)
            if (u != v) foreign.insert(foreign.end(), node(u).begin(), node(u).end());
          part.output = {blocks(Space::output, foreign)};
          if (own == leader(v)) part.input = part.output;
        });
  }

  /// Blocks of the weight N: one for each place, from all nodes.
  Shape railed(int v) const { return {.weights = std::vector<int>(node(v).size(), nodes())}; }

  void allGatherByRails() {
    for (int i = 0; i < smallest(); ++i)
      add(Level::between, Collective::allgather, rail(i), {}, [&](Part& part, int) {
        part.input = {one(Space::input)};
        for (const int rank : rail(i)) part.output.push_back(one(Space::output, rank));
      });
    next();
    inside(
        Collective::allgather, [&](int v) { return railed(v); },
        [&](Part& part, int, int own) {
          part.input = {blocks(Space::output, rail(own))};
          for (int i = 0; i < smallest(); ++i)
            part.output.push_back(blocks(Space::output, rail(i)));
        });
  }

  void reduceScatterByLeaders() {
    const auto held = [&](int v) { return size(v) == 1 ? Space::input : Space::scratch; };
    inside(
        Collective::reduce, [&](int v) { return toLeader(v, p()); },
        [&](Part& part, int v, int own) {
          part.input = {blocks(Space::input, 0, p())};
          if (own == leader(v)) part.output = {blocks(held(v), 0, p())};
        });
    next();
    betweenLeaders(Collective::reducescatter, {.weights = sizes()}, [&](Part& part, int v) {
      for (const auto& members : members()) part.input.push_back(blocks(held(v), members));
      part.output = {size(v) == 1 ? one(Space::output) : blocks(Space::scratch, p(), size(v))};
    });
    inside(
        Collective::scatter, [&](int v) { return toLeader(v); },
        [&](Part& part, int v, int own) {
          part.output = {one(Space::output)};
          if (own != leader(v)) return;
          for (int j = 0; j < size(v); ++j)
            part.input.push_back(size(v) == 1 ? one(Space::output) : one(Space::scratch, p() + j));
        });
  }

  void reduceScatterByRails() {
    inside(
        Collective::reducescatter, [&](int v) { return railed(v); },
        [&](Part& part, int, int) {
          for (int i = 0; i < smallest(); ++i) part.input.push_back(blocks(Space::input, rail(i)));
          part.output = {blocks(Space::scratch, 0, nodes())};
        });
    next();
    for (int i = 0; i < smallest(); ++i)
      add(Level::between, Collective::reducescatter, rail(i), {}, [&](Part& part, int) {
        for (int v = 0; v < nodes(); ++v) part.input.push_back(one(Space::scratch, v));
        part.output = {one(Space::output)};
      });
  }

  void allToAllByLeaders() {
    // A leader has the blocks that its ranks send, by sender and receiver; later those that they
    // receive, likewise.
    inside(
        Collective::gather, [&](int v) { return toLeader(v, p()); },
        [&](Part& part, int v, int own) {
          part.input = {blocks(Space::input, 0, p())};
          if (own != leader(v)) return;
          for (int j = 0; j < size(v); ++j)
            part.output.push_back(blocks(Space::scratch, j * p(), p()));
        });
    next();
    std::vector<int> squares;
    for (int v = 0; v < nodes(); ++v) squares.push_back(size(v) * size(v));
    betweenLeaders(Collective::alltoall, {.weights = squares}, [&](Part& part, int v) {
      for (int u = 0; u < nodes(); ++u) {
        Units& sent = part.input.emplace_back();
        Units& received = part.output.emplace_back();
        for (int j = 0; j < size(v); ++j)
          for (const int receiver : node(u))
            sent.push_back({Space::scratch, j * p() + receiver, 0});
        for (const int sender : node(u))
          for (int i = 0; i < size(v); ++i)
            received.push_back({Space::scratch, (size(v) + i) * p() + sender, 0});
      }
    });
    inside(
        Collective::scatter, [&](int v) { return toLeader(v, p()); },
        [&](Part& part, int v, int own) {
          part.output = {blocks(Space::output, 0, p())};
          if (own != leader(v)) return;
          for (int i = 0; i < size(v); ++i)
            part.input.push_back(blocks(Space::scratch, (size(v) + i) * p(), p()));
        });
  }

  void allToAllByRails() {
    // Inside the node, a rank gets all blocks for ranks of its own place: by sender, then by node.
    inside(
        Collective::alltoall, [&](int v) { return railed(v); },
        [&](Part& part, int, int) {
          for (int i = 0; i < smallest(); ++i) {
            part.input.push_back(blocks(Space::input, rail(i)));
            part.output.push_back(blocks(Space::scratch, i * nodes(), nodes()));
          }
        });
    next();
    for (int i = 0; i < smallest(); ++i)
      add(Level::between, Collective::alltoall, rail(i),
          {.weights = std::vector<int>(static_cast<std::size_t>(nodes()), smallest())},
          [&](Part& part, int) {
            for (int u = 0; u < nodes(); ++u) {
              Units& sent = part.input.emplace_back();
              for (int j = 0; j < smallest(); ++j)
                sent.push_back({Space::scratch, j * nodes() + u, 0});
              part.output.push_back(blocks(Space::output, node(u)));
            }
          });
  }

  /// All blocks are empty: a Reduce shows that all ranks have entered, and a Broadcast passes it
  /// on.
  void barrier() {
    const auto held = [&](int v) { return size(v) == 1 ? Space::input : Space::output; };
    inside(
        Collective::reduce, [&](int v) { return toLeader(v); },
        [&](Part& part, int v, int own) {
          part.input = {one(Space::input)};
          if (own == leader(v)) part.output = {one(held(v))};
        });
    next();
    betweenLeaders(Collective::barrier, {}, [&](Part& part, int v) {
      part.input = {one(held(v))};
      part.output = {one(Space::output)};
    });
    inside(
        Collective::broadcast, [&](int v) { return toLeader(v); },
        [&](Part& part, int v, int own) {
          part.output = {one(Space::output)};
          if (own == leader(v)) part.input = part.output;
        });
  }
};

/// `spec` must be supported.
std::vector<Phased> partsOf(const Spec& spec, int rank) {
  return Composition(spec, rank).parts().value();
}

bool supports(const Spec& spec) {
  Spec without = spec;
  without.parameter = without.inner = without.outer = 0;
  if (!plain(without) || !spec.layout.clustered()) return false;
  if (std::any_of(spec.layout.groups.begin(), spec.layout.groups.end(),
                  [&](const auto& groups) { return std::ssize(groups) != spec.ranks; }))
    return false;
  return Composition(spec, -1).parts().has_value();
}

/// Blocks of the whole collective that a part's ranks send to each other.
double sentIn(const Part& part) {
  const auto& w = part.weights;
  if (std::count(w.begin(), w.end(), w.front()) == std::ssize(w))
    return part.algorithm->closedForm(part.spec).total_sent * w.front() / part.shares;
  // Every block is sent directly to each rank that needs it.
  const double all = std::accumulate(w.begin(), w.end(), 0.0);
  switch (part.spec.collective) {
    case Collective::gather:
    case Collective::scatter: return all - w[static_cast<std::size_t>(part.spec.root)];
    case Collective::alltoall: { // from a node to itself, g * g; from g to h, g * h
      double root = 0;
      for (const int square : w) root += std::sqrt(square);
      return root * root - all;
    }
    default: return all * (part.spec.ranks - 1);
  }
}

ClosedForm closedForm(const Spec& spec) {
  ClosedForm form{ClosedForm::kUnclaimed, 0, ClosedForm::kUnclaimed, 0};
  if (!traits(spec.collective).movesData()) return form;
  for (const Phased& phased : partsOf(spec, -1)) {
    const double sent = sentIn(phased.part);
    form.total_sent += sent;
    if (phased.level == Level::between) form.between_nodes += sent;
  }
  return form;
}

double cost(const Spec& spec, const Link& link, double bytes) {
  // Parts of a phase run concurrently, except those of the same node, which share its memory.
  std::map<int, std::map<std::vector<int>, double>> phases;
  for (const Phased& phased : partsOf(spec, -1)) {
    const Part& part = phased.part;
    const int most = *std::max_element(part.weights.begin(), part.weights.end());
    phases[phased.phase][part.ranks] +=
        part.algorithm->cost(part.spec, link, bytes * most / part.shares);
  }
  double time = 0;
  for (const auto& [phase, groups] : phases) {
    double longest = 0;
    for (const auto& [ranks, seconds] : groups) longest = std::max(longest, seconds);
    time += longest;
  }
  return time;
}

RankPlan build(const Spec& spec, int rank) {
  std::vector<Part> parts;
  for (Phased& phased : partsOf(spec, rank)) parts.push_back(std::move(phased.part));
  return compose(spec, rank, parts);
}

} // namespace

const plan::Algorithm hierarchical{
    .name = "hierarchical",
    .summary = "inside nodes, between them, inside again; (INNER,OUTER) by name; /k leaders",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
    .composes = true,
};

} // namespace rondo::algorithms
