// Finds a model by name in the registry.
#include "train/models/model.h"

#include <array>

#include "train/named.h"

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
  return named(kModels, "model", name).make(input, classes);
}

} // namespace rondo::training
