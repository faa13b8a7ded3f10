// Memory of this process that other processes can map: which it is, and how they find it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "base/unique_fd.h"

namespace rondo::base {

/// The regions of this process. There is one list, because there is one address space; any thread.
class SharedRegions {
 public:
  /// How another process finds an address: descriptor `fd` of process `pid` is a memory file with
  /// this inode, and the address is `offset` bytes into it.
  struct Place {
    std::int32_t pid = 0, fd = -1;
    std::uint64_t inode = 0, offset = 0;
  };

  static SharedRegions& ofProcess();

  /// `fd` is mapped at `data` as a whole. Throws Error(system).
  void add(void* data, std::size_t bytes, UniqueFd fd);
  /// Closes the descriptor; the mapping stays.
  void remove(const void* data);
  /// Where the range is found; nothing when no region holds all of it.
  std::optional<Place> find(const void* data, std::size_t bytes) const;

 private:
  struct Region {
    std::size_t bytes = 0;
    std::uint64_t inode = 0;
    UniqueFd fd;
  };

  std::atomic<bool> any_{false}; ///< there was a region once: most processes never have one
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Region> regions_; ///< by address
};

} // namespace rondo::base
