// Copies between two processes by system calls, without shared memory.
#include "transports/shm/process_memory.h"

#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/read_file.h"
#include "base/ticks.h"
#include "transports/tuning.h"

namespace rondo::transport::shm {

Token ownToken() {
  static const auto value = static_cast<std::uint32_t>(base::randomNumber());
  return {reinterpret_cast<std::uintptr_t>(&value), value};
}

namespace {

/// `copy`: process_vm_readv or process_vm_writev.
int copyAll(decltype(::process_vm_readv)* copy, pid_t process, std::uint64_t address,
            std::byte* here, std::size_t size) {
  while (size > 0) {
    const iovec local{here, size};
    // An address of the other process: it is never used as a pointer here.
    const iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), size};
    const ssize_t copied = copy(process, &local, 1, &remote, 1, 0);
    if (copied < 0 && errno != EINTR) return errno;
    if (copied == 0) return EFAULT;
    if (copied < 0) continue;
    // The kernel copied fewer bytes: it reached its limit for one call, or the next page is
    // missing. In the second case the next call returns the error.
    here += copied;
    address += static_cast<std::uint64_t>(copied);
    size -= static_cast<std::size_t>(copied);
  }
  return 0;
}

} // namespace

int readMemory(pid_t process, std::uint64_t address, void* to, std::size_t size) {
  return copyAll(::process_vm_readv, process, address, static_cast<std::byte*>(to), size);
}

int writeMemory(pid_t process, std::uint64_t address, const void* from, std::size_t size) {
  auto* const here = static_cast<std::byte*>(const_cast<void*>(from)); // copyAll() only reads it
  return copyAll(::process_vm_writev, process, address, here, size);
}

namespace {

/// Both ends share a copy by the kernel, so each copies half of a body. Through a slot each end
/// copies the whole body, between the caches of two cores, which takes about twice as long as
/// within one cache. So slots are faster if the kernel takes this many times as long as a copy
/// within a cache. 64 KiB in virtual machines: AMD Zen 4, 6.1 and 1.2 us; Zen 3, 7.4 and 1.5 us.
constexpr std::uint64_t kSlowKernel = 4;

/// Only where the reader takes the lines of small messages (takingLinesPays()) were slots seen to
/// be faster.
bool measureSlots() {
  if (!takingLinesPays()) return false;
  constexpr std::size_t kBytes = std::size_t{64} << 10;
  constexpr int kTimes = 6;
  // Not at about the same place of a page, where either may be slow: see base/copy.h.
  constexpr std::size_t kApart = kBytes + 2048;
  std::vector<std::byte> both(kApart + kBytes, std::byte{1});
  std::byte *const from = both.data(), *const to = from + kApart;
  std::uint64_t kernel = ~std::uint64_t{0}, plain = kernel;
  for (int i = 0; i < kTimes; ++i) {
    const std::uint64_t begin = base::ticks();
    if (readMemory(::getpid(), reinterpret_cast<std::uintptr_t>(from), to, kBytes)) return false;
    const std::uint64_t between = base::ticks();
    std::memcpy(to, from, kBytes);
    asm volatile("" : : "r"(to) : "memory");
    kernel = std::min(kernel, between - begin);
    plain = std::min(plain, base::ticks() - between);
  }
  return kernel >= kSlowKernel * plain;
}

} // namespace

bool slotsAreFaster() {
  static const bool faster = measureSlots();
  return faster;
}

int tryRead(pid_t process, const Token& token) {
  std::uint32_t value = 0;
  if (const int error = readMemory(process, token.address, &value, sizeof value)) return error;
  return value == token.value ? 0 : ESRCH;
}

bool ended(pid_t process) {
  if (::kill(process, 0) != 0 && errno == ESRCH) return true;
  // A process whose parent has not waited for it is a zombie without other threads. (If only its
  // first thread has ended, it is one with other threads.)
  const std::string stat =
      base::readFile("/proc/" + std::to_string(process) + "/stat").value_or("");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string state, skipped;
  long threads = 0;
  fields >> state;
  for (int field = 4; field < 20; ++field) fields >> skipped;
  fields >> threads;
  return (state == "Z" || state == "X") && threads <= 1;
}

} // namespace rondo::transport::shm
