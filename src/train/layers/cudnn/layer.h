// Interface of a layer that is built on a device for batches of one size.
#pragma once

#include <memory>

#include "train/layers/cudnn/site.h"
#include "train/layers/layer.h"
#include "train/layers/node.h"

namespace rondo::training::cudnn {

/// A pass only queues work on the site's stream, except batch norm over ranks, which waits.
/// backward() starts to copy gradients of weights to the host. A layer that waits for the stream
/// also calls `ready` for all gradients that have arrived.
using Layer = LayerOn<Tensor>;

/// The arguments of a layer's constructor.
struct Blueprint {
  Site& site;
  const Node& node;
  Tensor in;
};

// build() of each layer
#define LAYER(Type, name) std::unique_ptr<Layer> build(const Type& value, const Blueprint& from);
#include "train/layers/layers.def"
#undef LAYER

} // namespace rondo::training::cudnn
