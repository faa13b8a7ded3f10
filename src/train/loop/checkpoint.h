// A file of named tensors and values, which is accepted as a whole or refused. It contains
// everything that a training run needs to continue as if it had not been interrupted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace rondo::training {

/// Name and shape of a tensor of floats.
struct TensorLabel {
  std::string name;
  std::vector<std::size_t> shape;

  std::size_t bytes() const;
};

/// A tensor in memory that is written to a file or filled from one.
struct TensorMemory {
  TensorLabel label;
  void* data = nullptr;   ///< label.bytes()
  bool each_rank = false; ///< values of each rank's own, in rank order
};

/// Values that are not tensors. A double keeps all its bits.
using CheckpointValue = std::variant<std::uint64_t, double, std::string>;
using CheckpointValues = std::map<std::string, CheckpointValue>;

/// Writes the tensors, whose names must differ, and the values to a file. It replaces an existing
/// file atomically, after the new one is complete and on the disk: if the machine stops at any
/// moment, or if this throws, `path` is either the old or the new file. Throws Error(system), which
/// names the file and the reason.
void writeCheckpoint(const std::string& path, const CheckpointValues& values,
                     std::span<const TensorMemory> tensors);

/// Returns why writeCheckpoint() could not write to this path, or "". Changes nothing.
std::string whyNoCheckpoint(const std::string& path);

/// A checkpoint that was read and verified. All errors are Error(data): "PATH: what is wrong".
class Checkpoint {
 public:
  /// Refuses a file that is missing, incomplete, damaged (found by its check sums; the text names a
  /// damaged tensor), not a checkpoint, or of another version.
  explicit Checkpoint(const std::string& path);

  const CheckpointValues& values() const { return values_; }
  /// Returns a value. Refuses a checkpoint without this value, or with another type.
  template <class T>
  const T& value(const std::string& name) const {
    const auto found = values_.find(name);
    const T* value = found == values_.end() ? nullptr : std::get_if<T>(&found->second);
    if (value == nullptr) fail("has no value \"" + name + "\" of the type that is expected");
    return *value;
  }

  /// Whether the file has tensors of these names, and no others.
  bool hasJust(std::span<const TensorMemory> tensors) const;
  /// Fills the tensors, in any order. Before it changes any, refuses a tensor that the file does
  /// not have or has with another shape, and, if they must be `all`, a file with other tensors. The
  /// error names the tensor, what was expected and what was found.
  void restore(std::span<const TensorMemory> tensors, bool all = true) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::vector<std::uint64_t> readIndex(std::span<const std::byte> bytes, std::uint64_t left);
  std::size_t find(const TensorLabel& wanted) const;

  std::string path_;
  CheckpointValues values_;
  std::vector<TensorLabel> labels_;
  std::vector<std::vector<std::byte>> contents_; ///< of each label, in the same order
};

} // namespace rondo::training
