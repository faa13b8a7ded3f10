// The open descriptors of this process.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

namespace rondo::test {

/// All open descriptors, except the one that this function uses.
inline std::vector<int> openDescriptorNumbers() {
  std::vector<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    open.push_back(fd);
  }
  std::erase_if(open, [](int fd) { return ::fcntl(fd, F_GETFD) < 0; });
  return open;
}

/// Number of open descriptors, with the one that this function uses.
inline std::size_t openDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// While it lives, this process gets no more descriptors.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = static_cast<rlim_t>(limit_);
    ::setrlimit(RLIMIT_NOFILE, &low);
  }
  ~NoMoreDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreDescriptors(const NoMoreDescriptors&) = delete;
  NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;
  int limit() const { return limit_; }

 private:
  static int nextFree() {
    const int next = ::dup(STDERR_FILENO);
    ::close(next);
    return next;
  }
  const int limit_ = nextFree();
  rlimit before_{};
};

} // namespace rondo::test
