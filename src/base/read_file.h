// Reads a whole file.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/above_streams.h"

namespace rondo::base {

/// How long readFile() waits for the writer of a pipe.
inline constexpr std::chrono::seconds kWriterPatience{10};

/// Larger files are refused. No file that Rondo reads as a whole comes near to this size.
inline constexpr std::size_t kLargestFile = std::size_t{64} << 20;

/// Returns the contents of the file, or nothing, with the reason in errno, if it cannot be read.
/// Also reads files of /proc and /sys, whose size is not known in advance, and pipes (`<(command)`
/// in a shell): ETIMEDOUT if the writer sends nothing for `patience`. EFBIG if there is more than
/// kLargestFile, as in /dev/zero.
inline std::optional<std::string> readFile(const std::string& path,
                                           std::chrono::milliseconds patience = kWriterPatience) {
  const int fd = aboveStreams(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd < 0) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece{};
  ssize_t got = 0;
  auto since = std::chrono::steady_clock::now();
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        since + patience - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0}; // regular files are always ready
    // Before a pipe has had a writer, only poll() waits for one; read() returns 0.
    got = ::poll(&ready, 1, static_cast<int>(std::max(left.count(), std::int64_t{0})));
    if (got == 0) {
      got = -1;
      errno = ETIMEDOUT;
    } else if (got > 0) {
      got = ::read(fd, piece.data(), piece.size());
      since = std::chrono::steady_clock::now();
    }
    if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > kLargestFile) {
      got = -1;
      errno = EFBIG;
    }
  } while (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN)));
  const int error = errno;
  ::close(fd);
  errno = error;
  return got == 0 ? std::optional(std::move(text)) : std::nullopt;
}

/// Returns the first line without its end of line; empty if the file cannot be read.
inline std::string firstLine(const std::string& path) {
  const std::string text = readFile(path).value_or("");
  return text.substr(0, text.find('\n'));
}

} // namespace rondo::base
