#include "train/parallel/samples.h"

#include <utility>

namespace rondo::training {

Samples::Samples(const TrainOptions& options, const Data& data, std::size_t parts)
    : options_(options),
      parts_(parts),
      sampler_(data.train.size(), static_cast<std::size_t>(options.batch), options.seed,
               remainderOf(options.remainder)),
      loader_(data.train, data.statistics,
              (static_cast<std::size_t>(options.batch) + parts - 1) / parts) {}

Batch Samples::load(int epoch, int step, std::size_t part) {
  const auto there = std::exchange(prepared_, std::nullopt);
  const bool same = there && there->epoch == epoch && there->step == step && there->part == part;
  return same ? there->batch : make(epoch, step, part);
}

void Samples::prepare(int epoch, int step, std::size_t part) {
  prepared_ = Prepared{epoch, step, part, make(epoch, step, part)};
}

Batch Samples::make(int epoch, int step, std::size_t part) {
  static constexpr Augmentation kAugmentation{.flip = true, .padding = 4};
  const auto samples = numbers(epoch, step, part);
  if (!options_.augment) return loader_.load(samples);
  return loader_.load(samples, kAugmentation, options_.seed, epoch);
}

Batch Samples::loadLabels(int epoch, int step, std::size_t part) {
  prepared_.reset();
  return loader_.loadLabels(numbers(epoch, step, part));
}

std::span<const std::uint32_t> Samples::numbers(int epoch, int step, std::size_t part) {
  const auto all = sampler_.samples(epoch, static_cast<std::size_t>(step));
  const Range range = share(all.size(), part, parts_);
  return all.subspan(range.begin, range.size());
}

} // namespace rondo::training
