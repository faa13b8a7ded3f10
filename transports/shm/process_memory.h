// Copies from and to memory of another process that is not mapped here, directly, without a slot
// (process_vm_readv, process_vm_writev).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace rondo::transport::shm {

/// A random number and its address in this process. A process that reads this number at this
/// address has read the right process, not another one that got the same process id later.
struct Token {
  std::uint64_t address = 0;
  std::uint32_t value = 0;
};
Token ownToken();

/// Copies `size` bytes at `address` of the process. Returns 0, or the error number; some bytes may
/// have been copied then. ESRCH: the process has ended. EFAULT: it has no such memory. EPERM,
/// ENOSYS: the kernel does not allow it. May be called by any thread.
int readMemory(pid_t process, std::uint64_t address, void* to, std::size_t size);

/// The same in the other direction: copies to the process.
int writeMemory(pid_t process, std::uint64_t address, const void* from, std::size_t size);

/// Whether copies by these functions are so slow on this machine that large bodies of one-way calls
/// should go through slots. Measured once, in 0.1 ms. False without measuring if takingLinesPays()
/// is false; also false if the kernel does not allow such copies.
bool slotsAreFaster();

/// Returns 0 if this process may read the memory of the process that has this token, otherwise the
/// error number; ESRCH if the process has ended, or another one has its id now.
int tryRead(pid_t process, const Token& token);

/// Whether the process has ended with all its threads, even if its parent has not waited for it.
bool ended(pid_t process);

} // namespace rondo::transport::shm
