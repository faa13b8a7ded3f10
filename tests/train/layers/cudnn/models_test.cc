// Compares whole models on a GPU with the CPU: residuals, the CNN, and small residual networks.
#include "train/layers/cudnn/twin.h"
#include "train/models/model.h"
#include "train/models/resnet.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kClasses = 4;

/// A block like resnet18's, with few channels.
LayerValues basic(std::size_t in, std::size_t channels, std::size_t stride) {
  LayerValues body = models::normed(channels, 3, stride);
  body.emplace_back(Relu{});
  models::append(body, models::normed(channels, 3));
  return models::residual(body, channels, stride, stride != 1 || in != channels);
}

/// A block like resnet50's.
LayerValues bottleneck(std::size_t in, std::size_t channels, std::size_t stride) {
  LayerValues body = models::normed(channels, 1);
  body.emplace_back(Relu{});
  models::append(body, models::normed(channels, 3, stride));
  body.emplace_back(Relu{});
  models::append(body, models::normed(4 * channels, 1));
  return models::residual(body, 4 * channels, stride, in != 4 * channels);
}

} // namespace

TEST_CASE("a residual on a GPU equals the CPU's: with a projection, nested, and at the start") {
  const LayerValues block = {Convolution{3, {.kernel = 3, .padding = 1}}, Relu{},
                             Convolution{3, {.kernel = 3, .padding = 1}}};
  const LayerValues tested[] = {
      {Residual{block, {}}},
      {Residual{block, {Convolution{3, {.kernel = 1}}}}},
      {Convolution{3, {.kernel = 1}}, Residual{block, {}}, Relu{}},
      {Convolution{3, {.kernel = 1}}, Residual{{}, block}},
      {Convolution{3, {.kernel = 1}}, Residual{{Residual{block, {}}, Relu{}}, {Relu{}}}}};
  for (LayerValues layers : tested) {
    layers.emplace_back(Flatten{});
    layers.emplace_back(Linear{kClasses});
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}})
      checkTwins(layers, {3, 5, 4}, count);
  }
}

TEST_CASE("the CNN trains on a GPU as on the CPU") {
  checkTwins(model("cnn", {1, 9, 8}, kClasses), {1, 9, 8}, 3, 3);
}

TEST_CASE("a residual network of two-layer blocks trains on a GPU as on the CPU") {
  LayerValues layers = models::normed(4, 3);
  layers.emplace_back(Relu{});
  for (const auto& more : {basic(4, 4, 1), basic(4, 8, 2), models::head(kClasses)})
    models::append(layers, more);
  checkTwins(layers, {3, 7, 7}, 4, 3);
}

TEST_CASE("a residual network of bottlenecks trains on a GPU as on the CPU") {
  LayerValues layers = models::normed(4, 7, 2);
  models::append(layers, {Relu{}, MaxPool{{.kernel = 3, .stride = 2, .padding = 1}}});
  for (const auto& more : {bottleneck(4, 2, 1), bottleneck(8, 4, 2), models::head(kClasses)})
    models::append(layers, more);
  checkTwins(layers, {3, 16, 16}, 4, 3);
}

} // namespace rondo::test
