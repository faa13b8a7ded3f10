// Memory of this process that other processes can map: the list of regions, how peers find them,
// and how peers learn that a region is gone.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>

#include "base/unique_fd.h"

namespace rondo::base {

/// The memory file of a region. The owner uses a page at its end to mark that the region is gone.
/// Peers map the whole file.
class SharedRegion {
 public:
  /// Makes the file. Throws Error(system).
  explicit SharedRegion(std::size_t bytes);
  /// Tells the peers that the region is gone, and frees its memory at once, even if they still map
  /// it (unless keep() was called). Does nothing of this in a forked child.
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  /// Size of the region in a file of `file_bytes`; zero if no region has a file of that size.
  static std::size_t bytesOf(std::size_t file_bytes);
  /// Whether the region is gone whose file, of `file_bytes`, is mapped at `file`. Never accesses
  /// memory that the owner has freed.
  static bool gone(const void* file, std::size_t file_bytes);

  /// Another process may still read the memory: the destructor does not free it.
  void keep() { kept_ = true; }

  int fd() const { return fd_.get(); }
  std::size_t bytes() const { return bytes_; }
  std::uint64_t inode() const { return inode_; }

 private:
  friend class SharedRegions;

  const std::size_t bytes_;
  const pid_t process_;
  UniqueFd fd_;
  std::uint64_t inode_ = 0;
  std::shared_ptr<void> end_; ///< the page after the region
  bool kept_ = false;
};

/// The regions of this process; one list, since a process has one address space. Any thread.
///
/// After fork(), a child has a private copy of every region at the same address, as of other
/// private memory: the parent does not see what the child writes, and the child never lends its
/// copy. Pages that the child has not written may show what the parent writes later.
class SharedRegions {
 public:
  /// Tells another process how to find an address: descriptor `fd` of process `pid` is the file of
  /// the region, whose inode this is, and the address is `offset` bytes into it.
  struct Handle {
    std::int32_t pid = 0, fd = -1;
    std::uint64_t inode = 0, offset = 0;
  };

  static SharedRegions& ofProcess();

  /// Adds a region whose file is mapped at `data`.
  void add(void* data, std::unique_ptr<SharedRegion> region);
  /// Removes the region at `data` from the list; it is not lent any more. Returns null in a
  /// forked child.
  std::unique_ptr<SharedRegion> remove(const void* data);
  /// Calls SharedRegion::keep() on all regions.
  void keepAll();
  /// Returns how peers find this range; nothing if no region contains all of it.
  std::optional<Handle> find(const void* data, std::size_t bytes) const;

 private:
  SharedRegions();
  static void inParent();
  static void inChild();

  std::atomic<bool> any_{false}; ///< a region was ever added; in most processes none is
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, std::unique_ptr<SharedRegion>> regions_; ///< by address
};

} // namespace rondo::base
