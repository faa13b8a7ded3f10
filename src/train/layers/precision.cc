// Finds a precision by its name, and checks whether this processor supports it.
#include "train/layers/precision.h"

#include <array>

#include "rondo/error.h"
#include "rondo/train.h"
#include "train/layers/compute.h"
#include "train/named.h"

namespace rondo::training {

namespace {

struct Kind {
  const char *name, *summary;
  Precision value;
};

constexpr std::array kKinds = {
    Kind{"float32", "all values are float32", Precision::float32},
    Kind{"bfloat16", "products of bfloat16, summed in float32; weights and gradients are float32",
         Precision::bfloat16},
};

} // namespace

Precision precisionOf(const std::string& name) {
  const Precision value = named(kKinds, "precision", name).value;
  if (value != Precision::float32 && !cpuLayers().supports(value))
    throw Error(ErrorCode::unsupported,
                "train: precision " + name + ": this processor has no instructions for it");
  return value;
}

} // namespace rondo::training

namespace rondo {

std::vector<TrainChoice> trainPrecisions() { return training::choicesOf(training::kKinds); }

} // namespace rondo
