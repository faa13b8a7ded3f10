#include "train/parallel/pipeline/staged_tensors.h"

#include <sstream>
#include <string>

namespace rondo::training {

namespace {

std::size_t elements(const TensorMemory& tensor) { return tensor.label.bytes() / sizeof(float); }

/// One line for each tensor: its name, which contains no blanks, and its shape.
std::string describe(const std::vector<TensorMemory>& tensors) {
  std::string text;
  for (const TensorMemory& one : tensors) {
    text += one.label.name;
    for (const std::size_t size : one.label.shape) text += " " + std::to_string(size);
    text += "\n";
  }
  return text;
}

} // namespace

StagedTensors::StagedTensors(Communicator& comm, std::vector<TensorMemory> own,
                             std::unique_ptr<SlicedTensors> sliced)
    : comm_(comm), sliced_(std::move(sliced)), all_(sliced_ ? sliced_->tensors() : std::move(own)) {
  const std::string text = describe(all_);
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::size_t> counts(ranks), offsets(ranks);
  const std::size_t count = text.size();
  comm.allGather(&count, counts.data(), 1, DataType::uint64);
  for (std::size_t rank = 1; rank < ranks; ++rank)
    offsets[rank] = offsets[rank - 1] + counts[rank - 1];
  std::vector<char> texts(offsets.back() + counts.back());
  comm.gatherv(text.data(), count, texts.data(), {counts, offsets}, DataType::uint8, 0);
  if (comm.rank() != 0) return;
  shares_.push_back({0, all_.size()});
  for (std::size_t rank = 1; rank < ranks; ++rank)
    addOthers(std::span(texts).subspan(offsets[rank], counts[rank]));
}

void StagedTensors::addOthers(std::span<const char> text) {
  const std::size_t begin = all_.size();
  std::istringstream lines(std::string(text.begin(), text.end()));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    TensorMemory& tensor = all_.emplace_back();
    words >> tensor.label.name;
    for (std::size_t size = 0; words >> size;) tensor.label.shape.push_back(size);
    tensor.data = memory_.emplace_back(elements(tensor)).data();
  }
  shares_.push_back({begin, all_.size()});
}

void StagedTensors::gather() {
  if (sliced_) sliced_->gather();
  collect();
}

void StagedTensors::scatter() {
  deal();
  if (sliced_) sliced_->scatter();
}

void StagedTensors::collect() {
  if (comm_.rank() != 0) {
    for (const TensorMemory& one : all_) comm_.send(one.data, elements(one), DataType::float32, 0);
    return;
  }
  for (int rank = 1; rank < comm_.size(); ++rank) {
    const Share share = shares_[static_cast<std::size_t>(rank)];
    for (std::size_t i = share.begin; i < share.end; ++i)
      comm_.recv(all_[i].data, elements(all_[i]), DataType::float32, rank);
  }
}

void StagedTensors::deal() {
  if (comm_.rank() != 0) {
    for (const TensorMemory& one : all_) comm_.recv(one.data, elements(one), DataType::float32, 0);
    return;
  }
  for (int rank = 1; rank < comm_.size(); ++rank) {
    const Share share = shares_[static_cast<std::size_t>(rank)];
    for (std::size_t i = share.begin; i < share.end; ++i)
      comm_.send(all_[i].data, elements(all_[i]), DataType::float32, rank);
  }
}

} // namespace rondo::training
