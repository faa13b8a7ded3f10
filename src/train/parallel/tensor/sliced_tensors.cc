#include "train/parallel/tensor/sliced_tensors.h"

#include <cstdint>

#include "rondo/detail/hash.h"

namespace rondo::training {

namespace {

/// "optimizer.momentum." for "optimizer.momentum.3.weight"
std::string kindOf(const TensorMemory& array, const Weight& weight) {
  const std::string& name = array.label.name;
  return name.substr(0, name.size() - weight.name.size());
}

} // namespace

SlicedTensors::SlicedTensors(Communicator& line, const std::vector<TensorModel*>& models,
                             const std::vector<TensorMemory>& own)
    : line_(line) {
  for (std::size_t at = 0; at < own.size();)
    for (TensorModel* model : models) {
      const std::string kind = kindOf(own[at], *model->weights().front());
      for (const TensorModel::Whole& weight : model->whole()) {
        Array& array = arrays_.emplace_back(Array{model, &weight, nullptr, 0, {}});
        if (weight.place != TensorModel::kNone) {
          const TensorMemory& values = own[at + weight.place];
          array.own = static_cast<float*>(values.data);
          array.own_count = values.label.bytes() / sizeof(float);
        }
        if (line.rank() != 0) continue;
        array.whole.resize(weight.size);
        tensors_.push_back({{kind + weight.name, weight.shape}, array.whole.data()});
      }
      at += model->weights().size();
    }
}

void SlicedTensors::gather() {
  for (Array& array : arrays_)
    array.model->gather(*array.weight, {array.own, array.own_count}, array.whole.data());
}

std::string SlicedTensors::firstDifference() {
  std::vector<const Array*> alike;
  std::vector<std::uint64_t> own;
  for (const Array& array : arrays_) {
    if (!array.model->isEverywhere(*array.weight)) continue;
    alike.push_back(&array);
    own.push_back(detail::hashBytes(array.own, array.own_count * sizeof(float)));
  }
  std::vector<std::uint64_t> all(own.size() * static_cast<std::size_t>(line_.size()));
  line_.allGather(own.data(), all.data(), own.size(), DataType::uint64);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != all[i % own.size()]) return alike[i % own.size()]->weight->name;
  return {};
}

void SlicedTensors::scatter() {
  AlignedVector<float> passed;
  for (Array& array : arrays_) {
    AlignedVector<float>& whole = line_.rank() == 0 ? array.whole : passed;
    whole.resize(array.weight->size);
    line_.broadcast(whole.data(), whole.data(), whole.size(), DataType::float32, 0);
    if (array.own) array.model->take(*array.weight, whole.data(), array.own);
  }
}

} // namespace rondo::training
