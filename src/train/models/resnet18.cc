// Model "resnet18": ResNet-18 for small images (CIFAR's 32 x 32), without pool and stride at the
// start.
#include "train/models/model.h"
#include "train/models/resnet.h"

namespace rondo::training::models {

namespace {

LayerValues block(std::size_t in, std::size_t channels, std::size_t stride) {
  LayerValues body = normed(channels, 3, stride);
  body.emplace_back(Relu{});
  append(body, normed(channels, 3));
  return residual(body, channels, stride, stride != 1 || in != channels);
}

} // namespace

LayerValues resnet18(const SampleShape&, std::size_t classes) {
  LayerValues layers = normed(64, 3);
  layers.emplace_back(Relu{});
  std::size_t in = 64;
  for (std::size_t channels : {64, 128, 256, 512}) {
    append(layers, block(in, channels, channels == 64 ? 1 : 2));
    append(layers, block(channels, channels, 1));
    in = channels;
  }
  append(layers, head(classes));
  return layers;
}

} // namespace rondo::training::models
