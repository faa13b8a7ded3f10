#include "train/parallel/own_arrays.h"

namespace rondo::training {

OwnArrays::OwnArrays(Communicator& comm, std::vector<OwnArray> arrays)
    : comm_(comm), own_(std::move(arrays)) {
  if (comm.rank() != 0) return;
  for (const OwnArray& one : own_) all_.emplace_back(one.values.size() * ranks());
}

void OwnArrays::gather() {
  for (std::size_t i = 0; i < own_.size(); ++i)
    comm_.gather(own_[i].values.data(), whole(i), own_[i].values.size(), DataType::float32, 0);
}

void OwnArrays::scatter() {
  for (std::size_t i = 0; i < own_.size(); ++i)
    comm_.scatter(whole(i), own_[i].values.data(), own_[i].values.size(), DataType::float32, 0);
}

void OwnArrays::describe(std::vector<TensorMemory>& into) {
  if (comm_.rank() != 0) return;
  for (std::size_t i = 0; i < own_.size(); ++i)
    into.push_back({{own_[i].name, {ranks(), own_[i].values.size()}}, whole(i), true});
}

} // namespace rondo::training
