// Copies from and to another process's memory that is not mapped here, in one copy
// (process_vm_readv, process_vm_writev).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace rondo::transport::shm {

/// A word of this process. A process that reads it at this address reads this process, and not
/// another one with the same number.
struct Token {
  std::uint64_t address = 0;
  std::uint32_t value = 0;
};
Token ownToken();

/// Copies `size` bytes at `address` of the process. Returns 0, or the error number; some bytes may
/// have been copied then. ESRCH: the process has ended. EFAULT: it has no such memory. EPERM,
/// ENOSYS: the system does not allow it. Any thread.
int readMemory(pid_t process, std::uint64_t address, void* to, std::size_t size);

/// The same in the other direction: copies to the process.
int writeMemory(pid_t process, std::uint64_t address, const void* from, std::size_t size);

/// 0 if this process may read the memory of the process with this token; otherwise the reason.
int tryRead(pid_t process, const Token& token);

/// Whether the process has ended with all its threads, even if its parent has not waited for it.
bool ended(pid_t process);

} // namespace rondo::transport::shm
