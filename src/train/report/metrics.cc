// The members of the metrics' lines.
#include "train/report/metrics.h"

#include "train/report/json.h"

namespace rondo::training {

std::string metricsLine(const StepRecord& step) {
  return JsonObject()
      .add("kind", "step")
      .add("number", step.number)
      .add("epoch", step.epoch)
      .add("step", step.step)
      .add("loss", step.loss)
      .add("learning_rate", step.learning_rate)
      .add("samples_per_second", step.samples_per_second)
      .add("ms", JsonObject()
                     .add("step", step.times.step)
                     .add("data", step.times.data)
                     .add("forward", step.times.forward)
                     .add("backward", step.times.backward)
                     .add("communication", step.times.communication)
                     .add("optimizer", step.times.optimizer))
      .str();
}

std::string metricsLine(const EpochRecord& epoch) {
  return JsonObject()
      .add("kind", "epoch")
      .add("epoch", epoch.epoch)
      .add("number", epoch.last_step)
      .add("loss", epoch.loss)
      .add("test_accuracy", epoch.test_accuracy)
      .add("seconds", epoch.seconds)
      .str();
}

} // namespace rondo::training
