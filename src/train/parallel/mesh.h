// Arranges ranks as a mesh with named axes, such as data=2,pipe=2.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/train.h"

namespace rondo::training {

/// What the ranks along an axis share.
enum class Axis {
  data,   ///< different samples, the same weights; gradients are added up
  shard,  ///< different samples, each rank has a part of the weights
  pipe,   ///< the same samples, different layers
  tensor, ///< the same samples and layers, different features
};
inline constexpr std::array kAxes = {Axis::data, Axis::shard, Axis::pipe, Axis::tensor};
std::string_view name(Axis axis);

/// A value: the axes and the number of ranks along each. The coordinates of a rank are the digits
/// of its number, the last named axis being the least significant digit: neighbours along it have
/// consecutive ranks.
class Mesh {
 public:
  /// Parses "data=2,pipe=2": axes in any order, each at most once, with 1 or more ranks. An axis
  /// that is not named has one rank. "" puts all ranks along data. Throws Error(invalid_argument)
  /// for an unknown axis (the text lists the valid ones), an axis that occurs twice, a missing
  /// number, or numbers whose product is not `ranks`.
  static Mesh parse(const std::string& text, int ranks);

  int size() const;
  /// The number of ranks along the axis.
  int size(Axis axis) const;
  /// The coordinate of a rank on the axis: 0 to size(axis) - 1.
  int coordinate(Axis axis, int rank) const;
  /// The ranks that differ from this one only in these axes, in ascending order, including itself.
  std::vector<int> groupOf(const std::vector<Axis>& axes, int rank) const;
  /// "data=2,pipe=2": all axes of more than one rank; "data=1" for one rank.
  std::string text() const;

  /// Collective. Returns the communicator of groupOf(axes, rank), in that order of ranks.
  Communicator split(Communicator& comm, const std::vector<Axis>& axes) const;

 private:
  struct Digit {
    Axis axis;
    int ranks;
  };
  int stride(Axis axis) const;

  std::vector<Digit> digits_; ///< the last is the least significant
};

/// The mesh of a strategy that needs the axis `own` and also allows the axes `beside`. If
/// options.sharding.mesh is empty, all ranks are along `own`. Throws Error(invalid_argument) as
/// Mesh::parse() does, and for any other axis.
Mesh strategyMesh(const TrainOptions& options, int ranks, Axis own,
                  const std::vector<Axis>& beside = {Axis::data});

} // namespace rondo::training
