// Ranks as a mesh with named axes: which of them are neighbours for what.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/train.h"

namespace rondo::training {

/// What the ranks along an axis do with each other.
enum class Axis {
  data,   ///< other samples, the same weights: they add up gradients
  shard,  ///< other samples, and each a part of the weights
  pipe,   ///< other layers of the same samples
  tensor, ///< other features of the same layers and samples
};
inline constexpr std::array kAxes = {Axis::data, Axis::shard, Axis::pipe, Axis::tensor};
std::string_view name(Axis axis);

/// A value: axes with how many ranks each has. Ranks are dealt out like the digits of a number, the
/// last axis that is named turning fastest: neighbours along it have ranks one behind the other.
class Mesh {
 public:
  /// From "data=2,pipe=2": axes in any order, each once, with 1 or more ranks; axes that are not
  /// named have one. "": all ranks along data. Throws Error(invalid_argument) that names what is
  /// wrong: a word of no axis (with those there are), an axis twice, no number, numbers whose
  /// product is not `ranks`.
  static Mesh parse(const std::string& text, int ranks);

  int size() const;
  /// Ranks along the axis.
  int size(Axis axis) const;
  /// Where a rank stands on the axis: 0 to size(axis) - 1.
  int coordinate(Axis axis, int rank) const;
  /// The ranks that differ from this one in these axes only, in order, itself among them.
  std::vector<int> neighbours(const std::vector<Axis>& axes, int rank) const;
  /// "data=2,pipe=2", with all axes of more than one rank; "data=1" for one rank.
  std::string text() const;

  /// Collective: the communicator of neighbours(axes, rank), whose ranks are in that order.
  Communicator split(Communicator& comm, const std::vector<Axis>& axes) const;

 private:
  struct Digit {
    Axis axis;
    int ranks;
  };
  int stride(Axis axis) const;

  std::vector<Digit> digits_; ///< the last turns fastest
};

/// The mesh of a strategy that shares something out along its own axis, and takes other axes beside
/// it; all ranks along its own where options.mesh is empty. Throws Error(invalid_argument) as
/// Mesh::parse(), and for any other axis.
Mesh strategyMesh(const TrainOptions& options, int ranks, Axis own,
                  const std::vector<Axis>& beside = {Axis::data});

} // namespace rondo::training
