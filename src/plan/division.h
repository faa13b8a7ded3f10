// Dividing a collective over the nodes of a layout: who takes part in what, and where blocks lie.
#pragma once

#include <functional>
#include <vector>

#include "plan/compose.h"

namespace rondo::plan {

/// Whether a part's ranks share a node, or are of different ones.
enum class Level { inside, between };

/// A part, and when it runs: parts of one phase have different ranks or different shares.
struct Phased {
  Part part;
  Level level = Level::inside;
  int phase = 0;
};

/// What algorithms that follow the layout are written with. Nodes are numbers, as are ranks' places
/// in their node. Each node has a leader: the root in its own, else its first rank. A rail is the
/// ranks with one place in all nodes.
class Division {
 public:
  /// Sets Part::algorithm, and the layout of its spec; false if nothing serves the part.
  using Pick = bool (*)(const Spec& whole, Level, Part&);

  /// `rank` -1: nobody's memory; the parts are complete but for places. The spec must live on.
  Division(const Spec& spec, int rank, Pick pick);

 protected:
  const Spec& spec() const { return spec_; }
  int p() const { return spec_.ranks; }
  int nodes() const { return static_cast<int>(members_.size()); }
  const std::vector<std::vector<int>>& members() const { return members_; }
  const std::vector<int>& node(int v) const { return members_[static_cast<std::size_t>(v)]; }
  int size(int v) const { return static_cast<int>(node(v).size()); }
  std::vector<int> sizes() const;
  int smallest() const { return smallest_; }
  int largest() const { return largest_; }
  /// Place in its node.
  int leader(int v) const { return leaders_[static_cast<std::size_t>(v)]; }
  std::vector<int> leaders() const;
  std::vector<int> rail(int place) const;
  bool isRoot() const { return rank_ == spec_.root; }

  static Units one(Space space, int block = 0, int share = 0) { return {{space, block, share}}; }
  /// The blocks of these numbers, one after the other.
  static Units blocks(Space space, const std::vector<int>& numbers);
  static Units blocks(Space space, int first, int count);

  /// What all ranks say of a part alike; `weights` empty: one unit for each block.
  struct Shape {
    int root = 0, shares = 1;
    std::vector<int> weights = {};
    bool scattered = false;
  };
  /// Names the places of this rank, whose place in the part is `own`.
  using Fill = std::function<void(Part&, int own)>;

  void add(Level level, Collective collective, const std::vector<int>& ranks, Shape shape,
           const Fill& fill);
  /// A part in each node.
  void inside(Collective collective, const std::function<Shape(int v)>& shape,
              const std::function<void(Part&, int v, int own)>& fill);
  Shape toLeader(int v, int weight = 1) const;
  /// A phase of its own; the root's node has the root. `own` is the number of the node.
  void betweenLeaders(Collective collective, Shape shape, const Fill& fill);
  /// What is added from here on follows what was added.
  void next() { ++phase_; }

  /// Whether nothing serves some part, or nothing was divided.
  bool failed() const { return failed_ || parts_.empty(); }
  /// Forgets what was added.
  void again();
  std::vector<Phased> take() { return std::move(parts_); }

 private:
  const Spec& spec_;
  const int rank_;
  const Pick pick_;
  const std::vector<std::vector<int>> members_;
  std::vector<int> leaders_;
  int root_node_ = 0, smallest_, largest_;
  std::vector<Phased> parts_;
  int phase_ = 0;
  bool failed_ = false;
};

} // namespace rondo::plan
