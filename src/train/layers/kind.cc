#include "train/layers/kind.h"

namespace rondo::training {

namespace {

/// A layer type without a name here does not compile.
struct Named {
  std::string_view operator()(const Linear&) const { return "linear"; }
  std::string_view operator()(const Relu&) const { return "ReLU"; }
  std::string_view operator()(const Flatten&) const { return "flatten"; }
  std::string_view operator()(const Convolution&) const { return "convolution"; }
  std::string_view operator()(const MaxPool&) const { return "max pool"; }
  std::string_view operator()(const AveragePool&) const { return "average pool"; }
  std::string_view operator()(const GlobalAveragePool&) const { return "global average pool"; }
  std::string_view operator()(const BatchNorm&) const { return "batch norm"; }
  std::string_view operator()(const Dropout&) const { return "dropout"; }
  std::string_view operator()(const Residual&) const { return "residual"; }
};

} // namespace

std::string_view kindOf(const LayerValue& layer) { return std::visit(Named{}, layer); }

} // namespace rondo::training
