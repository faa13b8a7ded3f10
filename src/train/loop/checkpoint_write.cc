// Writes a checkpoint to a new file, then renames it over the old one.
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>

#include "rondo/detail/hash.h"
#include "rondo/detail/writable.h"
#include "rondo/error.h"
#include "train/loop/checkpoint.h"
#include "train/loop/checkpoint_file.h"

namespace rondo::training {

namespace {

class Packer {
 public:
  void number(std::uint64_t value) { raw(&value, sizeof value); }
  void real(double value) { raw(&value, sizeof value); }
  void byte(std::uint8_t value) { raw(&value, sizeof value); }
  void text(const std::string& value) {
    number(value.size());
    raw(value.data(), value.size());
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  void raw(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }

  std::vector<std::byte> bytes_;
};

std::vector<std::byte> packIndex(const CheckpointValues& values,
                                 std::span<const TensorMemory> tensors) {
  Packer index;
  index.number(values.size());
  for (const auto& [name, value] : values) {
    index.text(name);
    index.byte(static_cast<std::uint8_t>(value.index()));
    if (const auto* number = std::get_if<std::uint64_t>(&value)) index.number(*number);
    if (const auto* real = std::get_if<double>(&value)) index.real(*real);
    if (const auto* text = std::get_if<std::string>(&value)) index.text(*text);
  }
  index.number(tensors.size());
  for (const TensorMemory& tensor : tensors) {
    index.text(tensor.label.name);
    index.byte(kFloat32);
    index.number(tensor.label.shape.size());
    for (std::size_t extent : tensor.label.shape) index.number(extent);
    index.number(detail::hashBytes(tensor.data, tensor.label.bytes()));
  }
  return index.bytes();
}

bool names(const std::string& path, int descriptor) {
  struct stat there {
  }, own{};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(descriptor, &own) == 0 &&
         there.st_dev == own.st_dev && there.st_ino == own.st_ino;
}

/// Opens the file and empties it, and keeps other jobs from writing it until it is closed. Returns
/// null on failure, with the reason in errno: EBUSY if another job writes it.
std::unique_ptr<DiskFile> openAlone(const std::string& path) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    auto file = std::make_unique<DiskFile>(path, O_WRONLY | O_CREAT | O_CLOEXEC);
    if (!file->isOpen()) return nullptr;
    // Other errors: the file system has no locks.
    if (::flock(file->descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) break;
    if (!names(path, file->descriptor())) continue; // the other job has just renamed it
    if (::ftruncate(file->descriptor(), 0) != 0) return nullptr;
    return file;
  }
  errno = EBUSY;
  return nullptr;
}

/// Writes a complete checkpoint, and flushes it to the disk.
bool writeAll(DiskFile& file, const std::vector<std::byte>& index,
              std::span<const TensorMemory> tensors) {
  CheckpointHeader header;
  header.index_bytes = static_cast<std::uint32_t>(index.size());
  header.index_hash = detail::hashBytes(index.data(), index.size());
  if (!file.write(&header, sizeof header) || !file.write(index.data(), index.size())) return false;
  for (const TensorMemory& tensor : tensors)
    if (!file.write(tensor.data, tensor.label.bytes())) return false;
  return file.flush();
}

/// A rename survives a loss of power only after its folder was flushed to the disk.
bool flushFolderOf(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  DiskFile file(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return file.isOpen() && file.flush();
}

/// The new checkpoint is in the folder of the old one, so both are on the same file system. Its
/// name is fixed, so the next checkpoint overwrites what a killed process left.
std::string freshAt(const std::string& place) { return place + ".new"; }

constexpr const char* kNoRegularFile = "it exists and is not a regular file";

bool isNoRegularFile(const std::string& place) {
  std::error_code ignored;
  const auto there = std::filesystem::status(place, ignored);
  return std::filesystem::exists(there) && !std::filesystem::is_regular_file(there);
}

} // namespace

std::string whyNoCheckpoint(const std::string& path) {
  const std::string place = detail::behindLinks(path);
  if (isNoRegularFile(place)) return kNoRegularFile;
  const std::error_code why = detail::whyNotWritable(freshAt(place));
  return why ? why.message() : "";
}

void writeCheckpoint(const std::string& path, const CheckpointValues& values,
                     std::span<const TensorMemory> tensors) {
  const std::vector<std::byte> index = packIndex(values, tensors);
  if (index.size() > std::numeric_limits<std::uint32_t>::max())
    throw Error(ErrorCode::invalid_argument, path + ": too many tensors for one checkpoint");
  const auto fail = [&path](const std::string& why) {
    throw Error(ErrorCode::system, path + ": the checkpoint could not be written: " + why);
  };
  const std::string place = detail::behindLinks(path);
  if (isNoRegularFile(place)) fail(kNoRegularFile);
  const std::string fresh = freshAt(place);
  const auto file = openAlone(fresh);
  if (!file) fail(errno == EBUSY ? "another job writes it" : reason());
  // Renamed before the file is closed, so that no other job can open it in between.
  if (!writeAll(*file, index, tensors) || ::rename(fresh.c_str(), place.c_str()) != 0) {
    const std::string why = reason();
    ::unlink(fresh.c_str());
    fail(why);
  }
  if (!flushFolderOf(place))
    throw Error(ErrorCode::system, path + ": its folder could not be written: " + reason());
}

} // namespace rondo::training
