// The open descriptors of this process.
#pragma once

#include <fcntl.h>

#include <charconv>
#include <filesystem>
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

} // namespace rondo::test
