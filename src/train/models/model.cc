// Finds a model in the registry.
#include "train/models/model.h"

#include <algorithm>
#include <array>

#include "rondo/error.h"

namespace rondo::training {

namespace {

struct Entry {
  const char* name;
  LayerValues (*make)(const SampleShape&, std::size_t);
};

constexpr std::array kModels = {
#define MODEL(name) Entry{#name, models::name},
#include "train/models/models.def"
#undef MODEL
};

} // namespace

LayerValues model(const std::string& name, const SampleShape& input, std::size_t classes) {
  const auto* found = std::find_if(kModels.begin(), kModels.end(),
                                   [&](const Entry& entry) { return name == entry.name; });
  if (found == kModels.end()) {
    throw Error(ErrorCode::invalid_argument,
                "train: model \"" + name + "\"; there is: " + modelNames());
  }
  return found->make(input, classes);
}

std::string modelNames() {
  std::string names;
  for (const Entry& entry : kModels) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

} // namespace rondo::training
