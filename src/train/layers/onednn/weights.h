// A layer's weights and their gradients between the plain layout and the one that a primitive
// wants.
#pragma once

#include "train/layers/onednn/op.h"

namespace rondo::training::onednn {

/// Values on their way into a primitive.
class Packed {
 public:
  Packed(Site& site, const Weight& weight, const Layout& plain, const Layout& wanted);

  const Tensor& tensor() const { return packed_; }
  /// Before the primitive runs: packs anew if the values changed, or the copy did not stay.
  void refresh();

 private:
  Site* site_;
  const Weight* weight_;
  Tensor plain_, packed_;
  Op pack_;
  bool copied_;
  std::uint64_t version_ = 0;
};

/// Gradients on their way out of one.
class Unpacked {
 public:
  Unpacked(Site& site, const Weight& weight, const Layout& plain, const Layout& made);

  const Tensor& tensor() const { return made_; }
  /// Before the primitive runs: says where the gradient's memory is now.
  void aim();
  /// Behind it: the gradient is where it belongs.
  void deliver() const { unpack_.run(); }

 private:
  const Weight* weight_;
  Tensor plain_, made_;
  Op unpack_;
};

} // namespace rondo::training::onednn
