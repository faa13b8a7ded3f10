// Makes memory visible to other processes, and private again.
#include "comm/region.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/memory_file.h"
#include "base/read_file.h"
#include "base/shared_region.h"
#include "comm/communicators.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

std::size_t pageSize() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

[[noreturn]] void failWith(const std::string& what) {
  throw Error(ErrorCode::system, what + ": " + std::strerror(errno));
}

/// Whether all of the range is private anonymous memory that may be read and written.
bool privateAnonymous(std::uintptr_t from, std::uintptr_t to) {
  std::istringstream maps(base::readFile("/proc/self/maps").value_or(""));
  std::string line;
  for (std::uintptr_t covered = from; covered < to && std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string access, offset, device;
    std::uint64_t inode = 0;
    words >> std::hex >> begin >> dash >> end >> access >> offset >> device >> std::dec >> inode;
    if (end <= covered) continue;
    if (begin > covered || access != "rw-p" || inode != 0) return false;
    if (line.find("[stack]") != std::string::npos) return false;
    covered = end;
    if (covered >= to) return true;
  }
  return false;
}

/// The regions of adopt(). All references to them are made and dropped with the mutex held, except
/// those that are moved.
struct Adopted {
  struct Known {
    void* data;
    std::size_t bytes;
    std::weak_ptr<Region> region;
  };
  const pid_t process = ::getpid();
  std::mutex mutex;
  std::vector<Known> regions;

  /// Needs the mutex.
  std::shared_ptr<Region> find(void* data, std::size_t bytes) {
    std::erase_if(regions, [](const Known& one) { return one.region.expired(); });
    for (const Known& one : regions)
      if (one.data == data && one.bytes == bytes) return one.region.lock();
    return nullptr;
  }
};
Adopted& adoptedRegions() {
  static auto& one = *new Adopted; // never destroyed: programs may register while they exit
  return one;
}

} // namespace

std::unique_ptr<Region> Region::allocate(std::size_t bytes) {
  const std::size_t page = pageSize();
  if (bytes > PTRDIFF_MAX - page)
    throw Error(ErrorCode::system, "cannot allocate " + std::to_string(bytes) + " bytes");
  const std::size_t mapped = bytes == 0 ? page : (bytes + page - 1) / page * page;
  auto file = std::make_unique<base::SharedRegion>(mapped);
  void* data = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd(), 0);
  if (data == MAP_FAILED) failWith("mmap of " + std::to_string(mapped) + " bytes");
  // Only a hint: some systems allow no huge pages for shared memory.
  ::madvise(data, mapped, MADV_HUGEPAGE);
  std::unique_ptr<Region> region(new Region(data, bytes, mapped, false));
  base::SharedRegions::ofProcess().add(data, std::move(file));
  return region;
}

std::shared_ptr<Region> Region::adopt(void* data, std::size_t bytes) {
  Adopted& all = adoptedRegions();
  {
    const std::lock_guard lock(all.mutex);
    if (auto known = all.find(data, bytes)) return known;
  }
  // Without the mutex: this may wait for other threads' calls.
  Communicators::refuseInUse({static_cast<const std::byte*>(data), bytes},
                             "registerBuffer: called");
  const std::lock_guard lock(all.mutex);
  if (auto known = all.find(data, bytes)) return known;
  auto region = newlyAdopted(data, bytes);
  all.regions.push_back({data, bytes, region});
  return region;
}

void Region::drop(std::shared_ptr<Region>& one, const std::string& what) {
  if (::getpid() != adoptedRegions().process) return one.reset(); // a forked child
  const auto dropped = [&one](bool last_too) {
    const std::lock_guard lock(adoptedRegions().mutex);
    if (!last_too && one.use_count() == 1) return false;
    one.reset();
    return true;
  };
  if (dropped(false)) return;
  Communicators::refuseInUse(one->memory(), what);
  dropped(true);
}

std::shared_ptr<Region> Region::newlyAdopted(void* data, std::size_t bytes) {
  const std::size_t page = pageSize();
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::string range = std::to_string(bytes) + " bytes at " + std::to_string(begin);
  if (data == nullptr || bytes == 0 || begin % page != 0 || bytes % page != 0)
    throw Error(
        ErrorCode::invalid_argument,
        "registerBuffer: " + range + " are not whole pages of " + std::to_string(page) + " bytes");
  if (!privateAnonymous(begin, begin + bytes))
    throw Error(ErrorCode::unsupported,
                "registerBuffer: " + range +
                    " are not private anonymous memory that may be read and written: use "
                    "Communicator::allocate");
  auto file = std::make_unique<base::SharedRegion>(bytes);
  {
    const auto copy = base::mapMemoryFile(file->fd(), bytes, PROT_READ | PROT_WRITE);
    std::memcpy(copy.get(), data, bytes);
  }
  if (::mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file->fd(),
             0) == MAP_FAILED)
    failWith("remapping " + range);
  std::shared_ptr<Region> region(new Region(data, bytes, bytes, true));
  base::SharedRegions::ofProcess().add(data, std::move(file));
  return region;
}

Region::~Region() {
  // `file` goes out of scope last, because the contents are needed until then.
  const auto file = base::SharedRegions::ofProcess().remove(data_);
  if (!adopted_) {
    ::munmap(data_, mapped_);
    return;
  }
  if (!file) return; // in a forked child the memory is private already
  void* copy = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy != MAP_FAILED) {
    std::memcpy(copy, data_, mapped_);
    // Not by the C library: UCX 1.13 replaces its mremap by one that drops the last argument, and
    // so moves the memory to address 0.
    if (::syscall(SYS_mremap, copy, mapped_, mapped_, MREMAP_MAYMOVE | MREMAP_FIXED, data_) != -1)
      return;
    ::munmap(copy, mapped_);
  }
  // Shared memory that no other process maps works equally well for its owner.
  file->keep();
  base::log(LogLevel::warn, "registered memory cannot be made private again and stays shared: ",
            std::strerror(errno));
}

} // namespace rondo::comm
