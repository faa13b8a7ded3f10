// Compares each GPU layer for images with the CPU's: odd sizes, strides, padding, a batch of one.
#include "train/layers/cudnn/twin.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kClasses = 4;

/// Puts the layer between others, so that its output and the gradient of its input matter.
LayerValues within(const LayerValue& layer) {
  return {Convolution{3, {.kernel = 1}}, layer, Flatten{}, Linear{kClasses}};
}

constexpr Window kWindows[] = {{.kernel = 1},
                               {.kernel = 2, .stride = 2},
                               {.kernel = 3, .padding = 1},
                               {.kernel = 3, .stride = 2, .padding = 1},
                               {.kernel = 3, .stride = 2},
                               {.kernel = 2, .stride = 3, .padding = 1},
                               {.kernel = 5, .stride = 1, .padding = 2}};
constexpr SampleShape kOdd{2, 7, 5};

} // namespace

TEST_CASE("a convolution on a GPU equals the CPU's, with strides, padding, and without bias") {
  for (const Window& window : kWindows)
    for (const bool bias : {true, false})
      for (const std::size_t count : {std::size_t{1}, std::size_t{3}})
        checkTwins(within(Convolution{5, window, bias}), kOdd, count);
}

TEST_CASE("a convolution of samples, whose input gradient is not needed, equals the CPU's") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{4}})
    checkTwins({Convolution{3, {.kernel = 3, .padding = 1}}, Relu{},
                Convolution{17, {.kernel = 3, .stride = 2}}, Flatten{}, Linear{kClasses}},
               {1, 9, 6}, count);
}

TEST_CASE("pools on a GPU equal the CPU's, with overlapping windows and with gaps") {
  for (const Window& window : kWindows)
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}}) {
      checkTwins(within(MaxPool{window}), kOdd, count);
      checkTwins(within(AveragePool{window}), kOdd, count);
    }
}

TEST_CASE("the mean of all places on a GPU equals the CPU's") {
  for (const SampleShape& shape : {kOdd, SampleShape{4, 1, 1}, SampleShape{1, 1, 6}})
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}})
      checkTwins({Convolution{3, {.kernel = 1}}, GlobalAveragePool{}, Linear{kClasses}}, shape,
                 count);
}

} // namespace rondo::test
