// Divides a collective over the nodes of a layout: the ranks of each part, and where blocks lie.
#pragma once

#include <functional>
#include <vector>

#include "plan/compose.h"

namespace rondo::plan {

/// Whether a part's ranks share a node or are on different nodes.
enum class Level { inside, between };

/// A part and its phase. Parts of one phase have different ranks or different shares.
struct Phased {
  Part part;
  Level level = Level::inside;
  int phase = 0;
};

/// The tools for algorithms that follow the layout. Nodes are numbered, and so are the places of
/// ranks in their node. Each node has a leader: the root in its own node, else the node's first
/// rank. A rail is the set of ranks with the same place in all nodes.
class Division {
 public:
  /// Sets Part::algorithm. Part::spec comes with the layout inside the node, which this function
  /// may remove. The result may depend on how many ranks the part has, but not on which ones.
  /// Returns false if no algorithm can do the part.
  using Pick = bool (*)(const Spec& whole, Level, Part&);

  /// `rank` -1: no rank's memory; the parts are complete except for places. `spec` must outlive
  /// this object.
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
  /// The leader's place in node v.
  int leader(int v) const { return leaders_[static_cast<std::size_t>(v)]; }
  std::vector<int> leaders() const;
  std::vector<int> rail(int place) const;
  bool isRoot() const { return rank_ == spec_.root; }

  static Units one(Space space, int block = 0, int share = 0) { return {{space, block, share}}; }
  /// The blocks with these numbers, concatenated.
  static Units blocks(Space space, const std::vector<int>& numbers);
  static Units blocks(Space space, int first, int count);

  /// The properties of a part that are equal on all ranks. `weights` empty: one unit per block.
  struct Shape {
    int root = 0, shares = 1;
    std::vector<int> weights = {};
    bool scattered = false;
  };
  /// Sets the places of this rank; `own` is its position in the part.
  using Fill = std::function<void(Part&, int own)>;

  void add(Level level, Collective collective, const std::vector<int>& ranks, Shape shape,
           const Fill& fill);
  /// Adds a part in each node.
  void inside(Collective collective, const std::function<Shape(int v)>& shape,
              const std::function<void(Part&, int v, int own)>& fill);
  Shape toLeader(int v, int weight = 1) const;
  /// Adds a phase with one part of all leaders. The root is the leader of the root's node. `own` is
  /// the number of this rank's node.
  void betweenLeaders(Collective collective, Shape shape, const Fill& fill);
  /// Starts a new phase: later parts follow the earlier ones.
  void next() { ++phase_; }

  /// Whether no algorithm can do some part, or no part was added.
  bool failed() const { return failed_ || parts_.empty(); }
  /// Removes all parts.
  void again();
  std::vector<Phased> take() { return std::move(parts_); }

 private:
  /// Picks the algorithm of the last part. Thousands of parts may be equal, so a part that is like
  /// the one before gets the same.
  void pickLast();

  const Spec& spec_;
  const int rank_;
  const Pick pick_;
  const std::vector<std::vector<int>> members_;
  std::vector<int> leaders_;
  int root_node_ = 0, smallest_, largest_;
  std::vector<Phased> parts_;
  Spec asked_; ///< of the last part, before an algorithm was picked
  int phase_ = 0;
  bool failed_ = false;
};

} // namespace rondo::plan
