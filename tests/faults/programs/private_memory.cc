// A rank that makes calls with large private buffers. The kernel may forbid that processes read
// each other's memory.
//
// Arguments: VICTIM HOW. VICTIM: a rank, or -1 for all. HOW: `free` (nothing is forbidden); `read
// ERROR` or `write ERROR` (the victim's process_vm_readv or process_vm_writev fails with this error
// number); `later` (process_vm_readv fails from the second round of calls on); `undumpable` (no
// other process may read the victim); `namespace` (the victim has its own user namespace);
// `stranger` (it also is another user of the host, who has the same id there). Prints "end RANK PID
// READS WRITES TEXT": how often this process read and wrote the memory of others, and what was
// wrong (empty: nothing). Prints "unable RANK" if the system does not allow this HOW.
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "faults/programs/refuse.h"
#include "rondo/communicator.h"
#include "support/collective_case.h"

namespace {
long reads = 0, writes = 0;

ssize_t counted(long call, long& count, pid_t pid, const iovec* local, const iovec* remote) {
  const long moved = ::syscall(call, pid, local, 1UL, remote, 1UL, 0UL);
  // Shorter calls only test whether it is allowed.
  if (moved > 64) ++count;
  return moved;
}
} // namespace

// The library calls these instead of the C library's.
extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long,
                                    const iovec* remote, unsigned long, unsigned long) noexcept {
  // A read of this process only measures the speed. The kernel must seem fast, whatever machine
  // this is, so that the calls use it.
  if (pid == ::getpid() && local->iov_len > 64) return static_cast<ssize_t>(local->iov_len);
  return counted(__NR_process_vm_readv, reads, pid, local, remote);
}
extern "C" ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long,
                                     const iovec* remote, unsigned long, unsigned long) noexcept {
  return counted(__NR_process_vm_writev, writes, pid, local, remote);
}

namespace {

bool put(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool done =
      fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) ::close(fd);
  return done;
}

/// Enters a new user namespace in which only this user and group exist, with the same ids.
bool enterNamespace() {
  const std::string user = std::to_string(::geteuid()), group = std::to_string(::getegid());
  return ::unshare(CLONE_NEWUSER) == 0 && put("/proc/self/setgroups", "deny") &&
         put("/proc/self/uid_map", user + " " + user + " 1") &&
         put("/proc/self/gid_map", group + " " + group + " 1");
}

/// Enters a new user namespace in which another user has this user's id, and becomes that user.
/// Only root may do that.
bool becomeStranger() {
  constexpr const char* kStranger = "4321";
  const std::string map = "/proc/" + std::to_string(::getpid()) + "/uid_map";
  const std::string user = std::to_string(::geteuid());
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return false;
  const pid_t outside = ::fork(); // only a process outside may write such a map
  if (outside == 0) {
    ::close(ready[1]); // or read() would not end if nothing is written
    char byte = 0;
    const bool entered = ::read(ready[0], &byte, 1) == 1;
    ::_exit(entered && put(map.c_str(), user + " " + kStranger + " 1") ? 0 : 1);
  }
  if (outside < 0) return false;
  int status = -1;
  const bool entered = ::unshare(CLONE_NEWUSER) == 0 && ::write(ready[1], "x", 1) == 1;
  ::close(ready[1]);
  ::close(ready[0]);
  ::waitpid(outside, &status, 0);
  return entered && status == 0 && ::setresuid(0, 0, 0) == 0;
}

/// Becomes an unprivileged user: a privileged process may read even processes that are not
/// dumpable.
bool dropPrivileges() {
  constexpr unsigned kNobody = 65534;
  return ::geteuid() != 0 || (::setresgid(kNobody, kNobody, kNobody) == 0 &&
                              ::setresuid(kNobody, kNobody, kNobody) == 0);
}

bool prepare(bool victim, const std::string& how, unsigned error) {
  if (how == "undumpable")
    return dropPrivileges() && ::prctl(PR_SET_DUMPABLE, victim ? 0 : 1, 0, 0, 0) == 0;
  if (!victim) return true;
  if (how == "namespace") return enterNamespace();
  if (how == "stranger") return becomeStranger();
  if (how == "read") refuse(__NR_process_vm_readv, error);
  if (how == "write") refuse(__NR_process_vm_writev, error);
  return true;
}

/// Makes calls with large blocks whose sizes are no multiples of 64 bytes. Returns what was wrong.
std::string callAll(rondo::Communicator& comm) {
  using rondo::Collective;
  for (const Collective collective : rondo::kCollectives)
    for (const std::size_t count : {8193u, 99999u, 100003u, 150002u})
      for (const bool in_place : {false, true}) {
        if (collective == Collective::sendrecv || collective == Collective::barrier) continue;
        if (in_place && !traits(collective).in_place) continue;
        const rondo::test::CollectiveCase one{
            .collective = collective,
            .count = count,
            .type = rondo::DataType::int32,
            .root = static_cast<int>(count) % comm.size(),
            .in_place = in_place,
        };
        // The ranks begin together. Otherwise senders revoke loans that a late receiver has not
        // begun to read.
        comm.barrier();
        if (std::string wrong = one.run(comm); !wrong.empty()) return wrong;
      }
  return {};
}

} // namespace

int main(int argc, char** argv) {
  const int rank = std::atoi(std::getenv("RONDO_RANK"));
  const bool victim = std::atoi(argv[1]) == rank || std::atoi(argv[1]) < 0;
  const std::string how = argv[2];
  const auto error = static_cast<unsigned>(argc > 3 ? std::atoi(argv[3]) : EPERM);
  if (!prepare(victim, how, error)) {
    std::printf("unable %d\n", rank);
    return 0;
  }
  std::string wrong;
  try {
    auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
    wrong = callAll(comm);
    if (victim && how == "later") refuse(__NR_process_vm_readv, error);
    if (wrong.empty() && how == "later") wrong = callAll(comm);
  } catch (const rondo::Error& failed) {
    wrong = std::string(rondo::name(failed.code())) + " of rank " +
            std::to_string(failed.culprit()) + ": " + failed.what();
  }
  std::printf("end %d %d %ld %ld %s\n", rank, ::getpid(), reads, writes, wrong.c_str());
}
