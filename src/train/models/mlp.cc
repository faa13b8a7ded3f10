// Model "mlp": a multi-layer perceptron with 256, 128 and 64 hidden features.
#include "train/models/model.h"

namespace rondo::training::models {

LayerValues mlp(const SampleShape&, std::size_t classes) {
  return {Flatten{}, Linear{256}, Relu{}, Linear{128}, Relu{}, Linear{64}, Relu{}, Linear{classes}};
}

} // namespace rondo::training::models
