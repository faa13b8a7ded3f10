// Batch norm folded into the convolutions before it: what evaluation and exported models compute.
#pragma once

#include <list>
#include <vector>

#include "train/aligned.h"
#include "train/layers/node.h"

namespace rondo::training {

/// A network without the batch norms that stand right behind a convolution. With R = weight /
/// sqrt(running_var + epsilon) of the norm, the convolution has the weights W R and the biases
/// (B - running_mean) R + bias. Other layers share the weights of the network that it is made of.
class Folded {
 public:
  /// The nodes must live as long, and their weights.
  explicit Folded(const std::vector<Node>& nodes) : nodes_(fold(nodes)) {}
  Folded(const Folded&) = delete;
  Folded& operator=(const Folded&) = delete;

  const std::vector<Node>& nodes() const { return nodes_; }
  /// Computes the values from what the network's weights and running statistics are now.
  void refresh();

 private:
  /// A convolution and the norm behind it, made one.
  struct Pair {
    const Node *convolution, *norm;
    Weight weight, bias;
    AlignedVector<float> weights, biases;
  };

  std::vector<Node> fold(const std::vector<Node>& nodes);
  Node join(const Node& convolution, const Node& norm);
  static void refresh(Pair& pair);

  std::list<Pair> pairs_; ///< where nodes_ points to
  std::vector<Node> nodes_;
};

/// The layers that the nodes were made of.
LayerValues valuesOf(const std::vector<Node>& nodes);

} // namespace rondo::training
