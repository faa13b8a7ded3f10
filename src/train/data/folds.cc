// Splits the training set of a data source into the two sets of a fold.
#include "train/data/folds.h"

#include <algorithm>
#include <string>

#include "rondo/error.h"
#include "train/data/sampler.h"

namespace rondo::training {

namespace {

constexpr std::uint64_t kSeed = 0; // one split for all runs, so that they can be compared

/// The samples that the fold holds out are true.
std::vector<bool> heldOut(std::size_t samples, Fold fold) {
  const auto order = sampleOrder(static_cast<std::uint32_t>(samples), kSeed, 0);
  const auto folds = static_cast<std::size_t>(fold.count);
  const Range part = share(samples, static_cast<std::size_t>(fold.number) - 1, folds);
  std::vector<bool> held(samples);
  for (std::size_t i = part.begin; i < part.end; ++i) held[order[i]] = true;
  return held;
}

} // namespace

void takeFold(Data& data, Fold fold) {
  if (fold.count == 0) return;
  Dataset& all = data.train;
  if (static_cast<std::size_t>(fold.count) > all.size())
    throw Error(ErrorCode::invalid_argument, "train: folds is " + std::to_string(fold.count) +
                                                 ", but there are only " +
                                                 std::to_string(all.size()) + " samples");
  const std::vector<bool> held = heldOut(all.size(), fold);
  const std::size_t bytes = all.shape.size();
  Dataset out{.shape = all.shape, .classes = all.classes, .images = {}, .labels = {}};
  std::size_t kept = 0;
  for (std::size_t sample = 0; sample < held.size(); ++sample) {
    const std::uint8_t* const image = all.image(sample);
    if (held[sample]) {
      out.images.insert(out.images.end(), image, image + bytes);
      out.labels.push_back(all.labels[sample]);
    } else {
      std::copy_n(image, bytes, all.images.data() + kept * bytes);
      all.labels[kept++] = all.labels[sample];
    }
  }
  all.limit(kept);
  data.test = std::move(out);
}

} // namespace rondo::training
