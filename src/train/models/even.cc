// Sixteen hidden layers that cost the same, for stages that do: what a pipeline loses by its order
// alone. Samples of 512 values (--data synthetic:shape=2x16x16) make the first layer one of them.
#include "train/models/model.h"

namespace rondo::training::models {

LayerValues even(const SampleShape&, std::size_t classes) {
  constexpr std::size_t kLayers = 16, kFeatures = 512;
  LayerValues layers = {Flatten{}};
  for (std::size_t i = 0; i < kLayers; ++i) {
    layers.emplace_back(Linear{kFeatures});
    layers.emplace_back(Relu{});
  }
  layers.emplace_back(Linear{classes});
  return layers;
}

} // namespace rondo::training::models
