// Model "cnn": two convolutions with max pools, then 128 hidden features.
#include "train/models/model.h"

namespace rondo::training::models {

LayerValues cnn(const SampleShape&, std::size_t classes) {
  constexpr Window kSame{.kernel = 3, .padding = 1}, kHalf{.kernel = 2, .stride = 2};
  return {Convolution{32, kSame},
          Relu{},
          MaxPool{kHalf},
          Convolution{64, kSame},
          Relu{},
          MaxPool{kHalf},
          Flatten{},
          Linear{128},
          Relu{},
          Linear{classes}};
}

} // namespace rondo::training::models
