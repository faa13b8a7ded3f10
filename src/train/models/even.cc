// Model "even": sixteen hidden layers of equal cost, so that all stages of a pipeline cost the
// same. It measures what the order of a pipeline costs. Samples of 512 values (--data
// synthetic:shape=2x16x16) give the first layer the same cost.
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
