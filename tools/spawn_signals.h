// Receives the signals that a launcher handles, through a descriptor.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string>

#include "rondo/error.h"
#include "tools/descriptor.h"

namespace rondo::tools {

/// These ask a job to end. (The launcher and its supervisor pass all that they handle on.)
inline constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/// Blocks the signals that the launcher handles while the object lives; read() returns them.
/// Signals that were ignored before (as by nohup(1)) stay ignored. SIGCHLD gets its default action,
/// which waitpid() needs. Writing to a terminal or a closed pipe does not stop or end the program.
class SignalWatch {
 public:
  SignalWatch() {
    struct sigaction none {};
    none.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &none, &child_before_);
    sigset_t handled, blocked;
    sigemptyset(&handled);
    for (const int signal : kEndingSignals) add(signal, handled);
    for (const int signal : {SIGCHLD, SIGTSTP, SIGCONT, SIGWINCH, SIGUSR1, SIGUSR2})
      add(signal, handled);
    blocked = handled;
    for (const int signal : {SIGPIPE, SIGTTOU}) sigaddset(&blocked, signal);
    if (pthread_sigmask(SIG_BLOCK, &blocked, &before_) != 0) fail("cannot block signals");
    fd_ = Descriptor(signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!fd_) fail("cannot watch signals");
  }
  ~SignalWatch() {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    sigaction(SIGCHLD, &child_before_, nullptr);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// To poll. A forked process may use it for its own signals.
  int fd() const { return fd_.get(); }
  /// The signal mask for children.
  const sigset_t& before() const { return before_; }

  /// Returns the next signal, or 0 if none is pending.
  int read() const {
    signalfd_siginfo info;
    const ssize_t size = ::read(fd_.get(), &info, sizeof info);
    return size == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo) : 0;
  }

  /// Stops this process as the signal does by default, until SIGCONT comes. Returns at once where
  /// the system lets no process of this group stop.
  static void stopBy(int signal) {
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, signal);
    ::raise(signal);
    pthread_sigmask(SIG_UNBLOCK, &one, &before);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

 private:
  static void add(int signal, sigset_t& set) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  [[noreturn]] static void fail(const std::string& what) {
    throw Error(ErrorCode::system, what + ": " + std::strerror(errno));
  }

  sigset_t before_{};
  struct sigaction child_before_ {};
  Descriptor fd_;
};

} // namespace rondo::tools
