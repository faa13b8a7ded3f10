// UniqueFd: owns a file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

#include "base/above_streams.h"
#include "base/fork.h"

namespace rondo::base {

/// The descriptor is private to the process that made it: a child made by fork() gets an
/// unconnected socket in its place, unless shareWithChildren() was called. Its number is above
/// those of the standard streams.
class UniqueFd {
 public:
  UniqueFd() = default;
  /// Takes `fd`, and moves it to a higher number if it has the number of a standard stream. If
  /// there is no descriptor afterwards, errno gives the reason.
  explicit UniqueFd(int fd) : fd_(aboveStreams(fd)) { endInChildren(fd_); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~UniqueFd() { close(); }

  /// Owns the descriptor that `open` returns; no fork can happen between `open` and the
  /// registration. errno is as `open` left it.
  template <class Open>
  static UniqueFd of(const Open& open) {
    const NoFork whole;
    return UniqueFd(open());
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void shareWithChildren() { keepInChildren(fd_); }
  int release() {
    keepInChildren(fd_);
    return std::exchange(fd_, -1);
  }
  void reset(int fd = -1) { *this = UniqueFd(fd); }

 private:
  void close() {
    if (fd_ < 0) return;
    const NoFork whole;
    keepInChildren(fd_);
    ::close(std::exchange(fd_, -1));
  }

  int fd_ = -1;
};

} // namespace rondo::base
