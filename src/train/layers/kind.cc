#include "train/layers/kind.h"

namespace rondo::training {

namespace {

struct Name {
#define LAYER(Type, name) \
  std::string_view operator()(const Type&) const { return name; }
#include "train/layers/layers.def"
#undef LAYER
};

} // namespace

std::string_view kindOf(const LayerValue& layer) { return std::visit(Name{}, layer); }

} // namespace rondo::training
