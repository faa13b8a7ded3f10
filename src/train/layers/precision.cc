// Finds a precision by its name, and checks whether this processor supports it.
#include "train/layers/precision.h"

#include <array>

#include "rondo/error.h"
#include "rondo/train.h"
#include "train/layers/compute.h"

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
  std::string valid;
  for (const Kind& kind : kKinds) {
    valid += (valid.empty() ? "" : ", ") + std::string(kind.name);
    if (name != kind.name) continue;
    if (kind.value != Precision::float32 && !cpuLayers().supports(kind.value))
      throw Error(ErrorCode::unsupported,
                  "train: precision " + name + ": this processor has no instructions for it");
    return kind.value;
  }
  throw Error(ErrorCode::invalid_argument, "train: precision \"" + name + "\"; there is: " + valid);
}

} // namespace rondo::training

namespace rondo {

std::vector<TrainChoice> trainPrecisions() {
  std::vector<TrainChoice> all;
  for (const training::Kind& kind : training::kKinds) all.push_back({kind.name, kind.summary});
  return all;
}

} // namespace rondo
