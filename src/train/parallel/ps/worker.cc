#include "train/parallel/ps/worker.h"

#include <cmath>

#include "train/add.h"
#include "train/parallel/recipe.h"

namespace rondo::training::servers {

Worker::Worker(const Setup& setup, Replica& replica, Links& links, const Keys& keys,
               GradientCodec* codec, std::span<float> kept)
    : options_(setup.options),
      replica_(replica),
      samples_(setup.options, setup.data,
               links.workers.size() * static_cast<std::size_t>(setup.options.accumulate)),
      gradients_(keys.count),
      part_(setup.options.accumulate > 1 ? keys.count : 0),
      exchange_(links, keys, {gradients_, replica.values(), kept}, codec) {}

void Worker::push(const Position& at, std::int64_t share, Request::Kind kind, StepClock& clock) {
  exchange_.settle();
  const auto first = static_cast<std::size_t>(share * options_.accumulate);
  const Pass pass = passOf(options_, at.total);
  Request request{.kind = kind};
  for (micro_ = 0; micro_ < options_.accumulate; ++micro_) {
    aim(micro_ == 0 ? gradients_.data() : part_.data());
    const Batch batch = samples_.load(at.epoch, at.step, first + static_cast<std::size_t>(micro_));
    clock.lap(&TrainTimes::data, "data");
    const double loss = replica_.network().forward(batch, pass);
    request.loss += loss;
    if (!std::isfinite(loss) && layer_.empty()) layer_ = replica_.network().firstNotFinite();
    for (Weight* weight : replica_.state())
      if (micro_ > 0) {
        float* const sum = gradients_.data() + (weight->value - replica_.values().data());
        add(sum, weight->gradient, weight->size());
      }
    clock.lap(&TrainTimes::forward, "forward");
    if (micro_ + 1 == options_.accumulate) {
      request.stop = !layer_.empty() || (options_.stop && options_.stop());
      exchange_.begin(request);
    }
    replica_.network().backward([this](std::size_t weight) { gradientStands(weight); });
    clock.lap(&TrainTimes::backward, "backward");
  }
}

/// Makes the passes write their gradients here.
void Worker::aim(float* gradients) {
  for (const auto list : {replica_.weights(), replica_.state()})
    for (Weight* weight : list)
      weight->gradient = gradients + (weight->value - replica_.values().data());
}

void Worker::gradientStands(std::size_t weight) {
  if (micro_ > 0) {
    const Weight& part = *replica_.weights()[weight];
    float* const sum = gradients_.data() + (part.value - replica_.values().data());
    add(sum, part.gradient, part.size());
  }
  if (micro_ + 1 == options_.accumulate) exchange_.gradientStands(weight);
}

Notice Worker::pull() {
  const Notice notice = exchange_.pull();
  replica_.network().weightsChanged();
  return notice;
}

} // namespace rondo::training::servers
