// Keeps a process's descriptors and locks in order when it calls fork().
//
// A child is a copy of one thread of a program that has more of them. If it kept a descriptor, a
// dead rank's connections would stay open, and no rank would notice the death. If it kept a lock
// that another thread held, the lock would never be released. So a child's copies of descriptors
// are replaced (unique_fd.h), locks of the whole process are taken under NoFork, and objects of a
// communicator know the process that made them.
#pragma once

#include <sys/types.h>
#include <unistd.h>

namespace rondo::base {

/// While one lives on any thread, fork() on another thread waits. For short sections that do not
/// wait: opening and registering a descriptor, or holding a lock that a child may need. May be
/// nested. It must be taken before the lock that it protects. Modules (module.h) load outside of
/// such sections: a child that is forked meanwhile must not use that module.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

/// Remembers the process that made an object. In a forked child the object is a copy of
/// something that is still in use by the parent: it must take no lock, send no message, and
/// change nothing shared.
class Maker {
 public:
  bool elsewhere() const { return ::getpid() != process_; }

 private:
  const pid_t process_ = ::getpid();
};

/// From now on a forked child gets an unconnected socket under this number in place of its copy.
/// The number stays taken, so that the owner's close() in the child does not close another file.
/// Any thread. Numbers from 2^20 on are ignored.
void endInChildren(int fd);
/// Undoes endInChildren().
void keepInChildren(int fd);

} // namespace rondo::base
