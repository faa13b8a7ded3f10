// Memory of this process that other processes can map: which it is, how they find it, and how they
// learn that it is gone.
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

/// The memory file behind a region, and a page at its end in which the owner says that the region
/// is gone. Peers map all of it.
class SharedRegion {
 public:
  /// Makes the file. Throws Error(system).
  explicit SharedRegion(std::size_t bytes);
  /// Tells the peers that the region is gone, and gives its memory back at once, though they still
  /// map it; but not after keep(). In a forked child, nothing of that.
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  /// Of a file of so many bytes: the region's part. Zero: it is no region's.
  static std::size_t bytesOf(std::size_t file_bytes);
  /// Whether the region whose file, of so many bytes, is mapped at `file` is gone. Never touches
  /// memory that the owner has given back.
  static bool gone(const void* file, std::size_t file_bytes);

  /// Somebody may go on reading the memory: it stays while it is mapped anywhere.
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
  std::shared_ptr<void> end_; ///< the page behind the region
  bool kept_ = false;
};

/// The regions of this process. There is one list, because there is one address space; any thread.
///
/// A child that fork() makes gets a private copy of every region under the same address, as of any
/// other private memory: what it writes stays its own, and nothing of it is ever lent. Pages that
/// it has not written may show what the parent writes there later.
class SharedRegions {
 public:
  /// How another process finds an address: descriptor `fd` of process `pid` is the file of a region
  /// with this inode, and the address is `offset` bytes into it.
  struct Handle {
    std::int32_t pid = 0, fd = -1;
    std::uint64_t inode = 0, offset = 0;
  };

  static SharedRegions& ofProcess();

  /// The region's part of the file is mapped at `data`.
  void add(void* data, std::unique_ptr<SharedRegion> region);
  /// Takes the region at `data` off the list: it is lent no more. Null in a forked child.
  std::unique_ptr<SharedRegion> remove(const void* data);
  /// SharedRegion::keep() of all that there are.
  void keepAll();
  /// Where the range is found; nothing when no region holds all of it.
  std::optional<Handle> find(const void* data, std::size_t bytes) const;

 private:
  SharedRegions();
  static void inParent();
  static void inChild();

  std::atomic<bool> any_{false}; ///< there was a region once: most processes never have one
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, std::unique_ptr<SharedRegion>> regions_; ///< by address
};

} // namespace rondo::base
