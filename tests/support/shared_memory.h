// This process's mappings of Rondo's memory files.
#pragma once

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>

namespace rondo::test {

struct SharedMemory {
  std::size_t writable = 0;     ///< mappings through which it can change memory of other processes
  std::size_t mapped_kib = 0;   ///< sum of all mapped sizes
  std::size_t resident_kib = 0; ///< part of it that occupies memory
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
