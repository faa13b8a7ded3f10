// What this process maps of Rondo's memory files.
#pragma once

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>

namespace rondo::test {

struct SharedMemory {
  std::size_t writable = 0;     ///< mappings that change what others see
  std::size_t mapped_kib = 0;   ///< of all, each by itself ...
  std::size_t resident_kib = 0; ///< ... and what of it takes memory
};

inline SharedMemory sharedMemory() {
  SharedMemory sum;
  std::ifstream maps("/proc/self/smaps");
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first.find('-') != std::string::npos) {
      ours = line.find("/memfd:rondo") != std::string::npos;
      if (ours && second == "rw-s") ++sum.writable;
    } else if (ours && first == "Size:") {
      sum.mapped_kib += std::stoul(second);
    } else if (ours && first == "Rss:") {
      sum.resident_kib += std::stoul(second);
    }
  }
  return sum;
}

} // namespace rondo::test
