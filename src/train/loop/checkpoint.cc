// Reads a checkpoint, verifies all of it, and fills tensors from it.
#include "train/loop/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "rondo/detail/hash.h"
#include "rondo/error.h"
#include "train/loop/checkpoint_file.h"

namespace rondo::training {

namespace {

/// Reads the fields of an index. After the end, fields are zero and `good` becomes false.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : left_(bytes) {}

  std::uint64_t number() { return raw<std::uint64_t>(); }
  double real() { return raw<double>(); }
  std::uint8_t byte() { return raw<std::uint8_t>(); }
  std::string text() {
    const std::uint64_t size = number();
    if (size > left_.size()) good = false;
    if (!good) return {};
    std::string value(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan(size);
    return value;
  }
  bool ended() const { return left_.empty(); }

  bool good = true;

 private:
  template <class T>
  T raw() {
    T value{};
    if (left_.size() < sizeof value) good = false;
    if (!good) return value;
    std::memcpy(&value, left_.data(), sizeof value);
    left_ = left_.subspan(sizeof value);
    return value;
  }

  std::span<const std::byte> left_;
};

bool unpackLabel(Unpacker& index, TensorLabel& label) {
  label.name = index.text();
  if (index.byte() != kFloat32) return false;
  for (std::uint64_t left = index.number(); left > 0 && index.good; --left)
    label.shape.push_back(index.number());
  return index.good;
}

/// The label's size in bytes, or most + 1 if it is larger than `most`: the product of wrong extents
/// must not overflow.
std::uint64_t bytesUpTo(const TensorLabel& label, std::uint64_t most) {
  std::uint64_t product = sizeof(float);
  for (std::size_t extent : label.shape) {
    if (extent == 0) return 0;
    if (product > most / extent) return most + 1;
    product *= extent;
  }
  return product;
}

bool unpackValues(Unpacker& index, CheckpointValues& values) {
  for (std::uint64_t left = index.number(); left > 0 && index.good; --left) {
    const std::string name = index.text();
    if (values.contains(name)) return false;
    switch (static_cast<ValueKind>(index.byte())) {
      case ValueKind::number: values[name] = index.number(); break;
      case ValueKind::real: values[name] = index.real(); break;
      case ValueKind::text: values[name] = index.text(); break;
      default: return false;
    }
  }
  return index.good;
}

std::string describe(const TensorLabel& label) {
  std::string text = "float32";
  for (std::size_t i = 0; i < label.shape.size(); ++i)
    text += (i == 0 ? " " : " x ") + std::to_string(label.shape[i]);
  return text;
}

} // namespace

Checkpoint::Checkpoint(const std::string& path) : path_(path) {
  DiskFile file(path, O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (!file.isOpen() || ::fstat(file.descriptor(), &status) != 0) fail(reason());
  // Allocates by the size of the file, not by the sizes that its header claims.
  auto left = static_cast<std::uint64_t>(status.st_size);
  const auto take = [&](void* into, std::size_t bytes, const std::string& what) {
    const ssize_t got = bytes > left ? 0 : file.read(into, bytes);
    if (got < 0) fail(reason());
    if (static_cast<std::size_t>(got) != bytes) fail("is torn: it ends within " + what);
    left -= bytes;
  };
  CheckpointHeader header;
  take(&header, sizeof header, "its header");
  if (header.magic != kCheckpointMagic) fail("is not a checkpoint of Rondo");
  if (header.version != kCheckpointVersion)
    fail("is a checkpoint of version " + std::to_string(header.version) +
         "; this build reads version " + std::to_string(kCheckpointVersion));
  std::vector<std::byte> index(std::min<std::uint64_t>(header.index_bytes, left));
  take(index.data(), header.index_bytes, "its index");
  if (detail::hashBytes(index.data(), index.size()) != header.index_hash)
    fail("is damaged: its index has a wrong check sum");
  const std::vector<std::uint64_t> hashes = readIndex(index, left);
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    std::vector<std::byte>& content = contents_.emplace_back(labels_[i].bytes());
    take(content.data(), content.size(), "tensor \"" + labels_[i].name + "\"");
    if (detail::hashBytes(content.data(), content.size()) != hashes[i])
      fail("is damaged: tensor \"" + labels_[i].name + "\" has a wrong check sum");
  }
  if (left != 0) fail("continues after its last tensor");
}

/// Returns the tensors' check sums. Refuses an index whose tensors need more than the `left` bytes
/// of the file before memory is allocated.
std::vector<std::uint64_t> Checkpoint::readIndex(std::span<const std::byte> bytes,
                                                 std::uint64_t left) {
  Unpacker index(bytes);
  bool sensible = unpackValues(index, values_);
  std::vector<std::uint64_t> hashes;
  std::set<std::string> names;
  for (std::uint64_t count = index.number(); sensible && count > 0; --count) {
    TensorLabel label;
    sensible = unpackLabel(index, label) && names.insert(label.name).second;
    const std::uint64_t size = sensible ? bytesUpTo(label, left) : 0;
    if (size > left) fail("is torn: it ends within tensor \"" + label.name + "\"");
    left -= size;
    hashes.push_back(index.number());
    labels_.push_back(std::move(label));
  }
  if (!sensible || !index.good || !index.ended()) fail("is damaged: its index is invalid");
  return hashes;
}

std::size_t TensorLabel::bytes() const {
  std::size_t product = sizeof(float);
  for (std::size_t extent : shape) product *= extent;
  return product;
}

void Checkpoint::fail(const std::string& what) const {
  throw Error(ErrorCode::data, path_ + ": " + what);
}

std::size_t Checkpoint::find(const TensorLabel& wanted) const {
  const auto found = std::find_if(labels_.begin(), labels_.end(), [&](const TensorLabel& label) {
    return label.name == wanted.name;
  });
  if (found == labels_.end())
    fail("has no tensor \"" + wanted.name + "\"; expected is " + describe(wanted));
  if (found->shape != wanted.shape)
    fail("tensor \"" + wanted.name + "\" is " + describe(*found) + "; expected is " +
         describe(wanted));
  return static_cast<std::size_t>(found - labels_.begin());
}

bool Checkpoint::hasJust(std::span<const TensorMemory> tensors) const {
  std::set<std::string> wanted, there;
  for (const TensorMemory& tensor : tensors) wanted.insert(tensor.label.name);
  for (const TensorLabel& label : labels_) there.insert(label.name);
  return wanted == there;
}

void Checkpoint::restore(std::span<const TensorMemory> tensors, bool all) const {
  std::vector<bool> wanted(labels_.size(), !all);
  for (const TensorMemory& tensor : tensors) wanted[find(tensor.label)] = true;
  const auto extra = std::find(wanted.begin(), wanted.end(), false);
  if (extra != wanted.end()) {
    const TensorLabel& label = labels_[static_cast<std::size_t>(extra - wanted.begin())];
    fail("has a tensor \"" + label.name + "\" (" + describe(label) + "), which is not expected");
  }
  for (const TensorMemory& tensor : tensors)
    if (tensor.label.bytes() > 0)
      std::memcpy(tensor.data, contents_[find(tensor.label)].data(), tensor.label.bytes());
}

} // namespace rondo::training
