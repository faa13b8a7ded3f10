// A file of named arrays and values, which is either whole or refused: what a training run needs
// to go on as if it had not been interrupted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace rondo::training {

/// What a tensor of floats is called and how large it is.
struct TensorLabel {
  std::string name;
  std::vector<std::size_t> shape;

  std::size_t bytes() const;
};

/// A tensor in the program's memory, which is written to a file or filled from one.
struct TensorMemory {
  TensorLabel label;
  void* data = nullptr; ///< label.bytes()
};

/// Values that are no arrays; a double keeps all its bits.
using CheckpointValue = std::variant<std::uint64_t, double, std::string>;
using CheckpointValues = std::map<std::string, CheckpointValue>;

/// Puts the tensors, whose names differ, and values into a file of this name. It replaces an
/// existing one in a single moment, once it is complete and on the disk: whenever the machine
/// stops, or if this throws, `path` is the old file or the new one. Throws Error(system) that names
/// the file and says why it could not be written.
void writeCheckpoint(const std::string& path, const CheckpointValues& values,
                     std::span<const TensorMemory> tensors);

/// Why writeCheckpoint() could not put a file at this path; "": it could. Leaves all as it is.
std::string whyNoCheckpoint(const std::string& path);

/// A checkpoint that was read and found whole. All errors are Error(data), "PATH: what is wrong".
class Checkpoint {
 public:
  /// Refuses a file that is missing, torn, damaged (by its check sums; a damaged tensor is named),
  /// no checkpoint at all, or of another version.
  explicit Checkpoint(const std::string& path);

  const CheckpointValues& values() const { return values_; }
  /// Refuses a checkpoint without this value, or with one of another type.
  template <class T>
  const T& value(const std::string& name) const {
    const auto found = values_.find(name);
    const T* value = found == values_.end() ? nullptr : std::get_if<T>(&found->second);
    if (value == nullptr) fail("has no value \"" + name + "\" of the type that is expected");
    return *value;
  }

  /// Fills the tensors, in any order. Refuses, before it changes any, a tensor that the file lacks,
  /// has with another shape, or has beside those that are asked for; the error names it,
  /// what is expected and what was found.
  void restore(std::span<const TensorMemory> tensors) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::vector<std::uint64_t> readIndex(std::span<const std::byte> bytes, std::uint64_t left);
  std::size_t find(const TensorLabel& wanted) const;

  std::string path_;
  CheckpointValues values_;
  std::vector<TensorLabel> labels_;
  std::vector<std::vector<std::byte>> contents_; ///< of each label
};

} // namespace rondo::training
