// Lends the terminal to the rank that reads from it.
#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include "tools/descriptor.h"

namespace rondo::tools {

/// Ranks are process groups of their own, so the terminal's foreground group is the launcher's: it
/// gets Ctrl-C and passes it on. A rank that reads from the terminal is stopped by SIGTTIN first,
/// as each background process is; it gets the terminal then, as a shell's `fg` would do it, and
/// Ctrl-C and Ctrl-Z reach this rank alone until it ends or is stopped. SIGTTOU must be blocked.
class Terminal {
 public:
  /// `home`: the launcher's process group.
  explicit Terminal(pid_t home) : home_(home), tty_(open("/dev/tty", O_RDWR | O_CLOEXEC)) {}
  ~Terminal() { takeBack(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool isThere() const { return tty_ && tcgetpgrp(tty_.get()) >= 0; }
  bool isLentTo(pid_t group) const { return holder_ == group; }

  /// Gives the terminal to the group. Returns false if the launcher is in the background and does
  /// not have the terminal itself.
  bool lend(pid_t group) {
    if (holder_ < 0 && tcgetpgrp(tty_.get()) != home_) return false;
    if (tcsetpgrp(tty_.get(), group) != 0) return false;
    holder_ = group;
    return true;
  }
  void takeBack() {
    if (holder_ >= 0) tcsetpgrp(tty_.get(), home_);
    holder_ = -1;
  }

 private:
  pid_t home_;
  pid_t holder_ = -1; ///< -1: the launcher has the terminal
  Descriptor tty_;
};

} // namespace rondo::tools
