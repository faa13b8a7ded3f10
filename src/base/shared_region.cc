// Keeps the list of this process's shared memory.
#include "base/shared_region.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "base/memory_file.h"
#include "rondo/error.h"

namespace rondo::base {
namespace {

std::size_t pageSize() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// The word in the page after a region; it is not 0 when the region is gone.
using Gone = std::atomic<std::uint32_t>;
static_assert(Gone::is_always_lock_free);

Gone& goneIn(void* page) { return *std::launder(reinterpret_cast<Gone*>(page)); }

} // namespace

SharedRegion::SharedRegion(std::size_t bytes)
    : bytes_(bytes), process_(::getpid()), fd_(makeMemoryFile(bytes + pageSize())) {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0)
    throw Error(ErrorCode::system, std::string("fstat of shared memory: ") + std::strerror(errno));
  inode_ = info.st_ino;
  fd_.shareWithChildren(); // a child maps the file again
  end_ = mapMemoryFile(fd_.get(), pageSize(), PROT_READ | PROT_WRITE, bytes);
}

SharedRegion::~SharedRegion() {
  if (::getpid() != process_) return;
  goneIn(end_.get()).store(1, std::memory_order_release);
  // The file keeps its size, so that no access to a mapping of it raises a signal. If the kernel
  // refuses, the memory is freed when the last peer has unmapped it.
  if (!kept_)
    static_cast<void>(::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                  static_cast<off_t>(bytes_)));
}

std::size_t SharedRegion::bytesOf(std::size_t file_bytes) {
  return file_bytes > pageSize() && file_bytes % pageSize() == 0 ? file_bytes - pageSize() : 0;
}

bool SharedRegion::gone(const void* file, std::size_t file_bytes) {
  const auto* page = static_cast<const std::byte*>(file) + bytesOf(file_bytes);
  return goneIn(const_cast<std::byte*>(page)).load(std::memory_order_acquire) != 0;
}

SharedRegions& SharedRegions::ofProcess() {
  static SharedRegions* const regions =
      new SharedRegions; // never destroyed: a process may fork while it exits
  return *regions;
}

SharedRegions::SharedRegions() {
  // The lock is held during fork(), so that the child's copy of the list is consistent.
  ::pthread_atfork([] { ofProcess().mutex_.lock(); }, inParent, inChild);
}

/// From now on the child reads pages that it has not written from the parent's file.
void SharedRegions::inParent() {
  SharedRegions& own = ofProcess();
  for (const auto& [address, region] : own.regions_) region->keep();
  own.mutex_.unlock();
}

/// Only async-signal-safe calls, since the program may have other threads.
void SharedRegions::inChild() {
  SharedRegions& own = ofProcess();
  for (const auto& [address, region] : own.regions_) {
    void* const data = reinterpret_cast<void*>(address);
    // Without a copy, the child must at least not write to the parent's memory.
    if (::mmap(data, region->bytes_, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, region->fd(), 0) == MAP_FAILED)
      ::mprotect(data, region->bytes_, PROT_READ);
  }
  new (&own.mutex_) std::shared_mutex; // only the thread that locked it could unlock it
}

void SharedRegions::add(void* data, std::unique_ptr<SharedRegion> region) {
  const std::unique_lock lock(mutex_);
  regions_[reinterpret_cast<std::uintptr_t>(data)] = std::move(region);
  any_.store(true, std::memory_order_relaxed);
}

std::unique_ptr<SharedRegion> SharedRegions::remove(const void* data) {
  const std::unique_lock lock(mutex_);
  auto entry = regions_.extract(reinterpret_cast<std::uintptr_t>(data));
  if (entry.empty() || entry.mapped()->process_ != ::getpid()) return nullptr;
  return std::move(entry.mapped());
}

void SharedRegions::keepAll() {
  const std::unique_lock lock(mutex_);
  for (const auto& [address, region] : regions_) region->keep();
}

std::optional<SharedRegions::Handle> SharedRegions::find(const void* data,
                                                         std::size_t bytes) const {
  // A caller that got its address from a region sees that region's store to any_.
  if (!any_.load(std::memory_order_relaxed)) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::shared_lock lock(mutex_);
  auto found = regions_.upper_bound(address);
  if (found == regions_.begin()) return {};
  --found;
  const SharedRegion& region = *found->second;
  const std::uint64_t offset = address - found->first;
  if (offset > region.bytes() || bytes > region.bytes() - offset) return {};
  const pid_t process = ::getpid();
  if (region.process_ != process) return {}; // a child's copy: peers would read the parent's
  return Handle{process, region.fd(), region.inode(), offset};
}

} // namespace rondo::base
