// Sealed memory files.
#include "base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "rondo/error.h"

namespace rondo::base {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string describe(int error) {
  return std::string(std::strerror(error)) + " (" + std::to_string(error) + ")";
}

[[noreturn]] void failWith(const char* call, std::size_t bytes, int error) {
  throw Error(ErrorCode::system, std::string(call) + " for " + std::to_string(bytes) +
                                     " bytes of shared memory: " + describe(error));
}

/// Gives every page its memory. Pages that have it already are left alone.
int allocate(int fd, std::size_t bytes) {
  for (;;) {
    if (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

} // namespace

UniqueFd makeMemoryFile(std::size_t bytes) {
  // Growing a file past this limit raises a signal that ends the process.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < bytes)
    failWith("file size limit", bytes, EFBIG);
  UniqueFd fd(::memfd_create("rondo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) failWith("memfd_create", bytes, errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) failWith("ftruncate", bytes, errno);
  if (const int error = allocate(fd.get(), bytes)) failWith("fallocate", bytes, error);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) failWith("F_ADD_SEALS", bytes, errno);
  return fd;
}

void checkMemoryFile(int fd, std::size_t bytes) {
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
  // Holes would be filled at first touch, and a lack of memory then is a signal.
  if (const int error = allocate(fd, bytes)) refuse("cannot be allocated: " + describe(error));
}

std::shared_ptr<void> mapMemoryFile(int fd, std::size_t bytes, int protection) {
  // Populated: the first messages must not pay for page faults.
  void* at = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) failWith("mmap", bytes, errno);
  return {at, [bytes](void* memory) { ::munmap(memory, bytes); }};
}

} // namespace rondo::base
