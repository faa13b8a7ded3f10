// Model "resnet50": ResNet-50 for ImageNet's 224 x 224, with the stride in a block's 3 x 3
// convolution.
#include "train/models/model.h"
#include "train/models/resnet.h"

namespace rondo::training::models {

namespace {

constexpr std::size_t kExpansion = 4;

LayerValues block(std::size_t in, std::size_t channels, std::size_t stride) {
  LayerValues body = normed(channels, 1);
  body.emplace_back(Relu{});
  append(body, normed(channels, 3, stride));
  body.emplace_back(Relu{});
  append(body, normed(kExpansion * channels, 1));
  return residual(body, kExpansion * channels, stride, in != kExpansion * channels);
}

} // namespace

LayerValues resnet50(const SampleShape&, std::size_t classes) {
  LayerValues layers = normed(64, 7, 2);
  append(layers, {Relu{}, MaxPool{{.kernel = 3, .stride = 2, .padding = 1}}});
  std::size_t in = 64, channels = 64;
  for (int blocks : {3, 4, 6, 3}) {
    for (int i = 0; i < blocks; ++i) {
      append(layers, block(in, channels, i == 0 && channels != 64 ? 2 : 1));
      in = kExpansion * channels;
    }
    channels *= 2;
  }
  append(layers, head(classes));
  return layers;
}

} // namespace rondo::training::models
