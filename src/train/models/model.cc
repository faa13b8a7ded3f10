// Finds a model by name in the registry.
#include "train/models/model.h"

#include <array>

#include "rondo/error.h"

namespace rondo::training {

namespace {

constexpr std::array kModels = {
#define MODEL(name, summary) ModelKind{#name, summary, models::name},
#include "train/models/models.def"
#undef MODEL
};

} // namespace

std::span<const ModelKind> modelKinds() { return kModels; }

LayerValues model(const std::string& name, const SampleShape& input, std::size_t classes) {
  std::string valid;
  for (const ModelKind& kind : kModels) {
    if (name == kind.name) return kind.make(input, classes);
    valid += (valid.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw Error(ErrorCode::invalid_argument, "train: model \"" + name + "\"; there is: " + valid);
}

} // namespace rondo::training
