// The list of this process's shared memory.
#include "base/shared_region.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rondo/error.h"

namespace rondo::base {

SharedRegions& SharedRegions::ofProcess() {
  static SharedRegions regions;
  return regions;
}

void SharedRegions::add(void* data, std::size_t bytes, UniqueFd fd) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0)
    throw Error(ErrorCode::system, std::string("fstat of shared memory: ") + std::strerror(errno));
  const std::unique_lock lock(mutex_);
  regions_[reinterpret_cast<std::uintptr_t>(data)] = {bytes, info.st_ino, std::move(fd)};
  any_.store(true, std::memory_order_relaxed);
}

void SharedRegions::remove(const void* data) {
  const std::unique_lock lock(mutex_);
  regions_.erase(reinterpret_cast<std::uintptr_t>(data));
}

std::optional<SharedRegions::Place> SharedRegions::find(const void* data, std::size_t bytes) const {
  // Whoever knows of a region knows of this.
  if (!any_.load(std::memory_order_relaxed)) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::shared_lock lock(mutex_);
  auto region = regions_.upper_bound(address);
  if (region == regions_.begin()) return {};
  --region;
  const std::uint64_t offset = address - region->first;
  if (offset > region->second.bytes || bytes > region->second.bytes - offset) return {};
  return Place{::getpid(), region->second.fd.get(), region->second.inode, offset};
}

} // namespace rondo::base
