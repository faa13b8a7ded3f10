// Makes, checks and maps sealed memory files.
#include "base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/fork.h"
#include "rondo/error.h"

namespace rondo::base {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

std::string describe(int error) {
  return std::string(std::strerror(error)) + " (" + std::to_string(error) + ")";
}

[[noreturn]] void failWith(const char* call, std::size_t bytes, int error) {
  throw Error(ErrorCode::system, std::string(call) + " for " + std::to_string(bytes) +
                                     " bytes of shared memory: " + describe(error));
}

/// Throws if the file would exceed RLIMIT_FSIZE: growing it past that limit raises a signal that
/// ends the process.
void obeyLimit(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < bytes)
    failWith("file size limit", bytes, EFBIG);
}

UniqueFd emptyFile(std::size_t bytes) {
  // Systems may forbid executable memory files (vm.memfd_noexec); kernels before 6.3 do not know
  // the flag.
  const auto make = [](unsigned flags) {
    return UniqueFd::of(
        [flags] { return ::memfd_create("rondo", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags); });
  };
  UniqueFd fd = make(MFD_NOEXEC_SEAL);
  if (!fd && errno == EINVAL) fd = make(0);
  if (!fd) failWith("memfd_create", bytes, errno);
  return fd;
}

std::size_t pageSize() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// Maps memory that is unmapped with the last copy of the pointer. Children do not have the
/// mapping, and must not unmap: something else may be at that address.
std::shared_ptr<void> map(int fd, std::size_t bytes, int protection, std::size_t offset) {
  const NoFork whole; // no child is made between the two calls
  void* at = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) failWith("mmap", bytes, errno);
  ::madvise(at, bytes, MADV_DONTFORK);
  return {at, [bytes, process = ::getpid()](void* memory) {
            if (::getpid() == process) ::munmap(memory, bytes);
          }};
}

/// Gives memory to every page that has none yet.
int allocate(int fd, std::size_t bytes) {
  for (;;) {
    if (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

} // namespace

UniqueFd makeMemoryFile(std::size_t bytes) { return makeMemoryFile(bytes, bytes); }

UniqueFd makeMemoryFile(std::size_t bytes, std::size_t head) {
  obeyLimit(bytes);
  UniqueFd fd = emptyFile(bytes);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) failWith("ftruncate", bytes, errno);
  if (const int error = allocate(fd.get(), head)) failWith("fallocate", head, error);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) failWith("F_ADD_SEALS", bytes, errno);
  return fd;
}

void tryMemoryFile(std::size_t bytes) {
  obeyLimit(bytes);
  emptyFile(bytes);
}

void checkMemoryFile(int fd, std::size_t bytes) { checkMemoryFile(fd, bytes, bytes); }

void checkMemoryFile(int fd, std::size_t bytes, std::size_t head) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::transport, "the peer's shared memory " + why);
  };
  const int seals = ::fcntl(fd, F_GET_SEALS); // fails for anything but a memory file
  if (seals < 0) refuse("is not a memory file");
  if ((seals & kSeals) != kSeals) refuse("has no seal on its size");
  if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) refuse("is sealed against writing");
  struct stat info {};
  if (::fstat(fd, &info) != 0) refuse("cannot be examined: " + describe(errno));
  if (info.st_size != static_cast<off_t>(bytes))
    refuse("has " + std::to_string(info.st_size) + " bytes instead of " + std::to_string(bytes));
  // Holes would be filled at the first access, and a lack of memory would then be a signal.
  // This process lacks it, not the peer.
  if (const int error = allocate(fd, head)) failWith("fallocate", head, error);
}

std::shared_ptr<void> mapMemoryFile(int fd, std::size_t bytes, int protection, std::size_t offset) {
  auto memory = map(fd, bytes, protection, offset);
  // With all its pages, so that the first messages do not cause page faults. This takes 45 to 120
  // ms for each GiB, so not by MAP_POPULATE, for which fork() would wait.
  if (::madvise(memory.get(), bytes, MADV_POPULATE_READ) != 0 && errno == EINVAL)
    for (std::size_t at = 0; at < bytes; at += pageSize()) // before Linux 5.14
      static_cast<void>(static_cast<const volatile std::byte*>(memory.get())[at]);
  return memory;
}

std::shared_ptr<void> mapMemoryFileLazily(int fd, std::size_t bytes, int protection) {
  return map(fd, bytes, protection, 0);
}

std::shared_ptr<void> mapMemoryFileHead(int fd, std::size_t bytes, std::size_t head) {
  if (head == bytes) return mapMemoryFile(fd, bytes, PROT_READ | PROT_WRITE);
  auto memory = mapMemoryFileLazily(fd, bytes, PROT_READ | PROT_WRITE);
  allocateMapped(memory.get(), head);
  return memory;
}

bool canAllocateMapped() {
  static const bool can = ::madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0;
  return can;
}

void allocateMapped(void* at, std::size_t bytes) {
  const std::size_t inside = reinterpret_cast<std::uintptr_t>(at) % pageSize();
  auto* const first = static_cast<std::byte*>(at) - inside;
  while (::madvise(first, bytes + inside, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    // If the file cannot get memory, the kernel reports EFAULT, as for a wrong address.
    failWith("madvise", bytes, errno == EFAULT ? ENOMEM : errno);
  }
}

} // namespace rondo::base
