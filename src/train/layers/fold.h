// Folds batch norm into the convolutions before it, for evaluation and exported models.
#pragma once

#include <list>
#include <vector>

#include "train/aligned.h"
#include "train/layers/node.h"

namespace rondo::training {

/// A network without the batch norms that directly follow a convolution. With R = weight /
/// sqrt(running_var + epsilon) of the norm, weights W and biases B of the convolution, the folded
/// convolution has the weights W R and the biases (B - running_mean) R + bias. All other layers
/// share the weights of the original network.
class Folded {
 public:
  /// The nodes and their weights must outlive this object.
  explicit Folded(const std::vector<Node>& nodes) : nodes_(fold(nodes)) {}
  Folded(const Folded&) = delete;
  Folded& operator=(const Folded&) = delete;

  const std::vector<Node>& nodes() const { return nodes_; }
  /// Recomputes the folded values from the current weights and running statistics.
  void refresh();

 private:
  /// A convolution, the norm after it, and the folded weights.
  struct Pair {
    const Node *convolution, *norm;
    Weight weight, bias;
    AlignedVector<float> weights, biases;
  };

  std::vector<Node> fold(const std::vector<Node>& nodes);
  Node join(const Node& convolution, const Node& norm);
  static void refresh(Pair& pair);

  std::list<Pair> pairs_; ///< the weights that nodes_ point to
  std::vector<Node> nodes_;
};

/// The layer values of the nodes.
LayerValues valuesOf(const std::vector<Node>& nodes);

} // namespace rondo::training
