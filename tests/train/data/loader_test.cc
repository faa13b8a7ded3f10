// Compares batches with the definition of each pixel, and tests that views depend only on their
// arguments.
#include "train/data/loader.h"

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "support/test.h"

namespace rondo::test {
namespace {

using namespace training;

Dataset drawSet(const SampleShape& shape, std::size_t count) {
  Dataset set{.shape = shape, .classes = 10, .images = {}, .labels = {}};
  std::minstd_rand random(1);
  for (std::size_t i = 0; i < count; ++i)
    set.labels.push_back(static_cast<std::uint8_t>(random() % 10));
  for (std::size_t i = 0; i < count * shape.size(); ++i)
    set.images.push_back(static_cast<std::uint8_t>(random() % 256));
  return set;
}

const std::vector<ChannelStatistics> kStatistics = {{0.25F, 0.5F}, {0.5F, 0.125F}};

/// Compares a batch with its definition: pixels by the view, and black outside of the image.
float expectedInput(const Dataset& set, std::uint32_t sample, const View& view, std::size_t channel,
                    std::size_t y, std::size_t x) {
  const auto rows = static_cast<std::ptrdiff_t>(set.shape.height);
  const auto columns = static_cast<std::ptrdiff_t>(set.shape.width);
  const std::ptrdiff_t shown =
      view.mirrored ? columns - 1 - static_cast<std::ptrdiff_t>(x) : static_cast<std::ptrdiff_t>(x);
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(y) + view.down;
  const std::ptrdiff_t column = shown + view.right;
  int pixel = 0;
  if (row >= 0 && row < rows && column >= 0 && column < columns)
    pixel =
        set.image(sample)[(static_cast<std::ptrdiff_t>(channel) * rows + row) * columns + column];
  return (static_cast<float>(pixel) / 255.0F - kStatistics[channel].mean) /
         kStatistics[channel].deviation;
}

void requireBatch(const Dataset& set, const Batch& batch, std::span<const std::uint32_t> samples,
                  const std::function<View(std::uint32_t)>& view) {
  REQUIRE(batch.count == samples.size());
  REQUIRE(reinterpret_cast<std::uintptr_t>(batch.inputs) % 64 == 0);
  const float* input = batch.inputs;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    REQUIRE(batch.samples[i] == samples[i]);
    REQUIRE(batch.labels[i] == set.labels[samples[i]]);
    for (std::size_t c = 0; c < set.shape.channels; ++c)
      for (std::size_t y = 0; y < set.shape.height; ++y)
        for (std::size_t x = 0; x < set.shape.width; ++x)
          REQUIRE(*input++ == expectedInput(set, samples[i], view(samples[i]), c, y, x));
  }
}

} // namespace

TEST_CASE("a batch holds its samples, normalised by channel") {
  const Dataset set = drawSet({2, 5, 7}, 20);
  Loader loader(set, kStatistics, 8);
  const std::vector<std::uint32_t> samples = {19, 3, 3, 0, 11};
  const auto plain = [](std::uint32_t) { return View{}; };
  requireBatch(set, loader.load(samples), samples, plain);
  requireBatch(set, loader.load(samples, {}, 1, 1), samples, plain);
  const std::vector<std::uint32_t> row = {12, 13, 14, 15, 16, 17, 18, 19};
  requireBatch(set, loader.load(12, 8), row, plain);
  requireBatch(set, loader.load(std::span(samples).first(1)), std::span(samples).first(1), plain);
}

TEST_CASE("an augmented batch shows every sample by its view, whichever batch it is in") {
  const Dataset set = drawSet({2, 5, 7}, 20);
  const std::vector<std::uint32_t> samples = {19, 3, 5, 0, 11, 7, 1, 2};
  // Padding that is larger than the image makes some samples completely black.
  for (const Augmentation& augmentation :
       {Augmentation{.flip = true, .padding = 0}, {false, 2}, {true, 2}, {true, 9}}) {
    const auto view = [&](std::uint32_t sample) { return drawView(augmentation, 42, 3, sample); };
    Loader whole(set, kStatistics, 8), parts(set, kStatistics, 8);
    requireBatch(set, whole.load(samples, augmentation, 42, 3), samples, view);
    // In parts, as other ranks or micro-batches would load them.
    for (std::size_t begin : {0, 3, 6}) {
      const auto part = std::span(samples).subspan(begin, begin == 6 ? 2 : 3);
      requireBatch(set, parts.load(part, augmentation, 42, 3), part, view);
    }
  }
}

TEST_CASE("views are spread evenly, and another seed, epoch or sample gives another sequence") {
  const Augmentation augmentation{.flip = true, .padding = 1};
  std::map<std::tuple<std::ptrdiff_t, std::ptrdiff_t, bool>, int> seen;
  std::set<std::vector<std::ptrdiff_t>> sequences;
  for (std::uint64_t seed : {0, 1, 2})
    for (int epoch : {1, 2, 3})
      for (std::uint32_t first : {0, 1, 2}) {
        std::vector<std::ptrdiff_t> sequence;
        for (std::uint32_t sample = first; sample < first + 200; ++sample) {
          const View view = drawView(augmentation, seed, epoch, sample);
          ++seen[{view.down, view.right, view.mirrored}];
          sequence.push_back(view.down * 100 + view.right * 10 + (view.mirrored ? 1 : 0));
        }
        sequences.insert(sequence);
      }
  REQUIRE(sequences.size() == 27);
  REQUIRE(seen.size() == 3 * 3 * 2);
  for (const auto& [view, times] : seen) {
    REQUIRE(std::abs(std::get<0>(view)) <= 1);
    REQUIRE(std::abs(std::get<1>(view)) <= 1);
    REQUIRE(times > 200); // the expected number is 5400 / 18 = 300
    REQUIRE(times < 400);
  }
}

} // namespace rondo::test
