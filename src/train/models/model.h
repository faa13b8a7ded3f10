// Models by name. A model is a list of layers for a shape of samples and a number of classes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "train/layers/values.h"

namespace rondo::training {

namespace models {
#define MODEL(name, summary) LayerValues name(const SampleShape& input, std::size_t classes);
#include "train/models/models.def"
#undef MODEL
} // namespace models

/// Throws Error(invalid_argument), which lists all models, for an unknown name.
LayerValues model(const std::string& name, const SampleShape& input, std::size_t classes);

struct ModelKind {
  std::string_view name, summary;
  LayerValues (*make)(const SampleShape&, std::size_t classes);
};

/// All models of the registry.
std::span<const ModelKind> modelKinds();

} // namespace rondo::training
