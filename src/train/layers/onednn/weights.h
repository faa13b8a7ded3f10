// Converts weights and their gradients between the plain layout and the layout of a primitive.
#pragma once

#include "train/layers/onednn/op.h"

namespace rondo::training::onednn {

/// The values of a weight, converted for a primitive.
class Packed {
 public:
  Packed(Site& site, const Weight& weight, const Layout& plain, const Layout& wanted);

  const Tensor& tensor() const { return packed_; }
  /// Call before the primitive runs: converts again if the values have changed, or if the copy is
  /// not kept.
  void refresh();

 private:
  Site* site_;
  const Weight* weight_;
  Tensor plain_, packed_;
  Op pack_;
  bool copied_;
  std::uint64_t version_ = 0;
};

/// The gradient of a weight, converted from a primitive.
class Unpacked {
 public:
  Unpacked(Site& site, const Weight& weight, const Layout& plain, const Layout& made);

  const Tensor& tensor() const { return made_; }
  /// Call before the primitive runs: reads the current address of the gradient's memory.
  void aim();
  /// Call after the primitive has run: stores the gradient in that memory.
  void deliver() const { unpack_.run(); }

 private:
  const Weight* weight_;
  Tensor plain_, made_;
  Op unpack_;
};

} // namespace rondo::training::onednn
