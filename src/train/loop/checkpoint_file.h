// The format of a checkpoint file: a header, an index, then the bytes of the tensors. The index
// contains their check sums. All numbers are little-endian.
//
//   offset  bytes
//        0      8   magic
//        8      4   version
//       12      4   length of the index
//       16      8   detail::hashBytes() of the index
//       24          the index: values, then tensors
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

#include "base/above_streams.h"

namespace rondo::training {

static_assert(std::endian::native == std::endian::little, "the file's numbers are written as is");

inline constexpr std::array<char, 8> kCheckpointMagic = {'R', 'o', 'n', 'd', 'o', 'C', 'k', 'p'};
inline constexpr std::uint32_t kCheckpointVersion = 1;

struct CheckpointHeader {
  std::array<char, 8> magic = kCheckpointMagic;
  std::uint32_t version = kCheckpointVersion;
  std::uint32_t index_bytes = 0;
  std::uint64_t index_hash = 0;
};
static_assert(sizeof(CheckpointHeader) == 24);

/// Type of a tensor's elements; the only one so far.
inline constexpr std::uint8_t kFloat32 = 0;

/// Which alternative of CheckpointValue follows in the index.
enum class ValueKind : std::uint8_t { number, real, text };

class DiskFile {
 public:
  DiskFile(const std::string& path, int flags)
      : descriptor_(base::aboveStreams(::open(path.c_str(), flags, 0666))) {}
  ~DiskFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  bool isOpen() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

  /// Returns false on failure, with the reason in errno.
  bool write(const void* data, std::size_t bytes) {
    for (const auto* at = static_cast<const char*>(data); bytes > 0;) {
      const ssize_t done = ::write(descriptor_, at, bytes);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return false;
      at += done;
      bytes -= static_cast<std::size_t>(done);
    }
    return true;
  }
  /// Returns the number of bytes read; -1 on failure, with the reason in errno.
  ssize_t read(void* data, std::size_t bytes) {
    std::size_t have = 0;
    while (have < bytes) {
      const ssize_t got = ::read(descriptor_, static_cast<char*>(data) + have, bytes - have);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return -1;
      if (got == 0) break;
      have += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(have);
  }
  bool flush() { return ::fsync(descriptor_) == 0; }

 private:
  const int descriptor_;
};

/// Why the last call failed.
inline std::string reason() { return std::generic_category().message(errno); }

} // namespace rondo::training
