// What becomes of this process's descriptors and locks in the children that fork() makes.
//
// A child is a copy of one thread of a program that has others. A descriptor that it kept would
// hold a dead rank's connections open, so that nobody saw the death; a lock that another thread
// held would never be given back. So a child's copies of descriptors end (unique_fd.h), locks of
// the whole process are taken under NoFork, and objects that belong to one communicator know the
// process that made them.
#pragma once

#include <sys/types.h>
#include <unistd.h>

namespace rondo::base {

/// While one lives on any thread, a fork() on another one waits. For short sections that wait for
/// nothing: opening a descriptor and noting it, or holding a lock that a child may need. May be
/// nested; taken before the lock that it goes with.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

/// The process that made an object. In a forked child the object is a copy of something that goes
/// on elsewhere: it takes no lock, and neither tells nor touches anybody.
class Maker {
 public:
  bool elsewhere() const { return ::getpid() != process_; }

 private:
  const pid_t process_ = ::getpid();
};

/// From now on a forked child gets, under this number, a socket that is connected to nothing in
/// place of its copy: the number stays taken, so that its owner closes nothing of the child's. Any
/// thread; numbers from 2^20 on are not noted.
void endInChildren(int fd);
/// As before endInChildren().
void keepInChildren(int fd);

} // namespace rondo::base
