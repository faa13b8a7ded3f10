// Preloaded into a program, makes the system calls behave in ways that are allowed and rare.
//
// ODD_SYSTEM=often: about half of the calls on sockets and event descriptors, chosen at random,
// fail with EINTR or (if they do not block) EAGAIN, or move only a few bytes. ODD_SYSTEM=K: the
// K-th call that needs memory, a descriptor or space fails with ENOMEM, EMFILE or ENOSPC; 0: none.
// Only in the process with RONDO_RANK=1. At the end it prints "calls N" to the standard error,
// where N is how many there were.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <random>

namespace {

struct Plan {
  bool often = false, counts = false;
  long fails = 0;
};

const Plan& plan() {
  static const Plan one = [] {
    Plan made;
    const char* text = std::getenv("ODD_SYSTEM");
    const char* rank = std::getenv("RONDO_RANK");
    if (text == nullptr) return made;
    made.often = std::strcmp(text, "often") == 0;
    made.counts = !made.often && rank != nullptr && std::strcmp(rank, "1") == 0;
    made.fails = made.counts ? std::atol(text) : 0;
    return made;
  }();
  return one;
}

std::atomic<long> calls{0};

struct Report {
  ~Report() {
    if (plan().counts) ::dprintf(STDERR_FILENO, "calls %ld\n", calls.load());
  }
} const report;

/// Whether this call, which needs something, is to fail.
bool lacks(int error) {
  if (!plan().counts || ++calls != plan().fails) return false;
  errno = error;
  return true;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name) static auto* const real_##name = real<decltype(::name)>(#name)

bool concerns(int fd) {
  struct stat about {};
  return plan().often && ::fstat(fd, &about) == 0 && !S_ISREG(about.st_mode) &&
         !S_ISCHR(about.st_mode) && !S_ISFIFO(about.st_mode);
}

enum class Oddity { none, fails, is_short };

/// A number below `end`. Not a fixed order, which could meet the same call of a loop each time.
unsigned any(unsigned end) {
  thread_local std::minstd_rand random(1);
  return static_cast<unsigned>(random() >> 8) % end;
}

Oddity next(int fd, int flags) {
  if (!concerns(fd)) return Oddity::none;
  const bool waits = (flags & MSG_DONTWAIT) == 0 && (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
  switch (any(6)) {
    case 1: errno = EINTR; return Oddity::fails;
    case 3: errno = waits ? EINTR : EAGAIN; return Oddity::fails;
    case 5: return Oddity::is_short;
    default: return Oddity::none;
  }
}

/// Smaller sends are left alone: the handshake counts on a new socket to take them whole.
constexpr std::size_t kRoom = 128;

std::size_t few(std::size_t bytes) { return std::min<std::size_t>(bytes, 5); }

/// The same with a first piece of a few bytes, and no other.
msghdr shortened(const msghdr* message, iovec& piece) {
  msghdr copy = *message;
  std::size_t i = 0;
  while (i + 1 < copy.msg_iovlen && copy.msg_iov[i].iov_len == 0) ++i;
  if (copy.msg_iovlen == 0) return copy;
  piece = {copy.msg_iov[i].iov_base, few(copy.msg_iov[i].iov_len)};
  copy.msg_iov = &piece;
  copy.msg_iovlen = 1;
  return copy;
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t send(int fd, const void* data, std::size_t bytes, int flags) {
  REAL(send);
  const Oddity odd = bytes > kRoom ? next(fd, flags) : Oddity::none;
  if (odd == Oddity::fails) return -1;
  return real_send(fd, data, odd == Oddity::is_short ? few(bytes) : bytes, flags);
}

ssize_t recv(int fd, void* data, std::size_t bytes, int flags) {
  REAL(recv);
  const Oddity odd = next(fd, flags);
  if (odd == Oddity::fails) return -1;
  return real_recv(fd, data, odd == Oddity::is_short ? few(bytes) : bytes, flags);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  REAL(sendmsg);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) bytes += message->msg_iov[i].iov_len;
  const Oddity odd = bytes > kRoom ? next(fd, flags) : Oddity::none;
  if (odd == Oddity::fails) return -1;
  iovec piece{};
  const msghdr less = shortened(message, piece);
  return real_sendmsg(fd, odd == Oddity::is_short ? &less : message, flags);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  REAL(recvmsg);
  const Oddity odd = next(fd, flags);
  if (odd == Oddity::fails) return -1;
  if (odd == Oddity::none) return real_recvmsg(fd, message, flags);
  iovec piece{};
  msghdr less = shortened(message, piece);
  const ssize_t got = real_recvmsg(fd, &less, flags);
  message->msg_namelen = less.msg_namelen;
  message->msg_controllen = less.msg_controllen;
  message->msg_flags = less.msg_flags;
  return got;
}

ssize_t read(int fd, void* data, std::size_t bytes) {
  REAL(read);
  return next(fd, 0) == Oddity::fails ? -1 : real_read(fd, data, bytes);
}

ssize_t write(int fd, const void* data, std::size_t bytes) {
  REAL(write);
  if (next(fd, 0) != Oddity::fails) return real_write(fd, data, bytes);
  errno = EINTR; // EAGAIN would mean that the counter is full, which cannot be imitated
  return -1;
}

int poll(pollfd* ends, nfds_t count, int limit) {
  REAL(poll);
  if (!plan().often || any(2) == 0) return real_poll(ends, count, limit);
  errno = EINTR;
  return -1;
}

int epoll_wait(int fd, epoll_event* events, int most, int limit) {
  REAL(epoll_wait);
  if (!plan().often || any(2) == 0) return real_epoll_wait(fd, events, most, limit);
  errno = EINTR;
  return -1;
}

int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  REAL(accept4);
  if (next(fd, 0) == Oddity::fails || lacks(EMFILE)) return -1;
  return real_accept4(fd, address, length, flags);
}

int socket(int domain, int type, int protocol) {
  REAL(socket);
  return lacks(EMFILE) ? -1 : real_socket(domain, type, protocol);
}

int eventfd(unsigned count, int flags) {
  REAL(eventfd);
  return lacks(EMFILE) ? -1 : real_eventfd(count, flags);
}

int epoll_create1(int flags) {
  REAL(epoll_create1);
  return lacks(EMFILE) ? -1 : real_epoll_create1(flags);
}

int epoll_ctl(int set, int what, int fd, epoll_event* event) {
  REAL(epoll_ctl);
  return what == EPOLL_CTL_ADD && lacks(ENOMEM) ? -1 : real_epoll_ctl(set, what, fd, event);
}

int memfd_create(const char* name, unsigned flags) {
  REAL(memfd_create);
  return lacks(EMFILE) ? -1 : real_memfd_create(name, flags);
}

int ftruncate(int fd, off_t size) {
  REAL(ftruncate);
  return lacks(ENOSPC) ? -1 : real_ftruncate(fd, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  REAL(fallocate);
  return lacks(ENOSPC) ? -1 : real_fallocate(fd, mode, offset, size);
}

void* mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
  REAL(mmap);
  return lacks(ENOMEM) ? MAP_FAILED : real_mmap(at, bytes, protection, flags, fd, offset);
}

int open(const char* path, int flags, ...) {
  REAL(open);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return lacks(EMFILE) ? -1 : real_open(path, flags, mode);
}
}
#pragma GCC visibility pop
