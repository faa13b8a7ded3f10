// Starts the ranks of a job as processes of this machine, watches over them, and ends with them.
#include "tools/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "rondo/error.h"
#include "rondo/rendezvous.h"
#include "tools/descriptor.h"
#include "topology/bind.h"
#include "topology/system.h"

namespace rondo::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCannotStart = 127;
constexpr std::chrono::milliseconds kAfterTerm{1000}; ///< from SIGTERM to SIGKILL

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::system, what + ": " + std::strerror(errno));
}

/// The signals that the launcher handles are blocked while it lives; signalfd delivers them.
class SignalWatch {
 public:
  SignalWatch() {
    sigset_t handled;
    sigemptyset(&handled);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&handled, signal);
    if (pthread_sigmask(SIG_BLOCK, &handled, &before_) != 0) fail("cannot block signals");
    fd_ = Descriptor(signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!fd_) fail("cannot watch signals");
  }
  ~SignalWatch() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
  Descriptor fd_;
};

/// One of a rank's two outputs, when lines are tagged.
struct Output {
  Descriptor from;
  int to = STDOUT_FILENO;
  std::string line; ///< not complete yet
};

struct Child {
  pid_t pid = -1;
  bool running = false;
  std::array<Output, 2> outputs;
};

void writeAll(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) return; // nobody reads any more: the ranks go on
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

std::string endText(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

/// This process's environment with some variables set.
std::vector<std::string> environmentWith(const std::vector<std::string>& set) {
  std::vector<std::string> variables = set;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view word(*variable);
    const std::string_view name = word.substr(0, word.find('=') + 1);
    const bool replaced = std::any_of(set.begin(), set.end(), [&](const std::string& one) {
      return std::string_view(one).substr(0, name.size()) == name;
    });
    if (!replaced) variables.emplace_back(word);
  }
  return variables;
}

/// Where each rank is to run; none, where they are not to be bound.
std::vector<topology::Processors> placesFor(const SpawnOptions& options) {
  const char* set = std::getenv("RONDO_BIND");
  const std::string words = !options.bind.empty() ? options.bind : set ? set : "";
  const auto rule = topology::parseBind(words, options.bind.empty() ? "RONDO_BIND" : "--bind");
  const topology::Processors allowed = topology::ownProcessors();
  if (rule.to == topology::BindRule::To::none || allowed.empty()) return {};
  auto places = topology::bindings(topology::systemMachine(allowed), rule, allowed, options.ranks);
  for (const topology::Processors& place : places)
    if (!topology::contains(allowed, place))
      throw Error(ErrorCode::invalid_argument,
                  "ranks cannot be bound to processors " + topology::text(place) +
                      ": this command may use " + topology::text(allowed));
  return places;
}

class Job {
 public:
  explicit Job(const SpawnOptions& options)
      : options_(options),
        launch_(options.ranks),
        places_(placesFor(options)),
        children_(static_cast<std::size_t>(options.ranks)) {}
  ~Job() {
    // Only after an exception: nobody may outlive the job.
    for (Child& child : children_) {
      if (!child.running) continue;
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int run() {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      if (!start(rank)) {
        signalAll(SIGKILL);
        break;
      }
    }
    while (anyRunning()) step();
    for (Child& child : children_) {
      for (Output& output : child.outputs) drain(child, output);
    }
    return status_;
  }

 private:
  bool anyRunning() const {
    return std::any_of(children_.begin(), children_.end(),
                       [](const Child& child) { return child.running; });
  }

  void signalAll(int signal) {
    for (const Child& child : children_) {
      if (child.running) kill(child.pid, signal);
    }
  }

  /// Forks and executes; false, with a line on stderr, if the program cannot be started.
  bool start(int rank) {
    Child& child = children_[static_cast<std::size_t>(rank)];
    std::array<Descriptor, 2> write_ends;
    if (options_.tag) {
      for (std::size_t i = 0; i < 2; ++i) {
        auto [read_end, write_end] = makePipe();
        fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
        child.outputs[i] = {std::move(read_end), i == 0 ? STDOUT_FILENO : STDERR_FILENO, {}};
        write_ends[i] = std::move(write_end);
      }
    }
    auto [failure_read, failure_write] = makePipe();
    // Everything that allocates happens before fork(): other threads may hold the allocator's lock.
    std::vector<char*> argv;
    for (const std::string& word : options_.command)
      argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    std::vector<std::string> variables = environmentWith(launch_.environment(rank));
    std::vector<char*> envp;
    for (std::string& variable : variables) envp.push_back(variable.data());
    envp.push_back(nullptr);
    const pid_t launcher = getpid();

    child.pid = fork();
    if (child.pid < 0) fail("cannot start rank " + std::to_string(rank));
    if (child.pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != launcher) _exit(kCannotStart); // it died before prctl() could see it
      for (int i = 0; i < 2; ++i) {
        const Descriptor& end = write_ends[static_cast<std::size_t>(i)];
        if (end) dup2(end.get(), i == 0 ? STDOUT_FILENO : STDERR_FILENO);
      }
      fcntl(launch_.descriptor(), F_SETFD, 0);
      // Before the program's libraries count the processors that they may use.
      if (!places_.empty()) topology::bindThread(places_[static_cast<std::size_t>(rank)]);
      pthread_sigmask(SIG_SETMASK, &signals_.before(), nullptr);
      execvpe(argv[0], argv.data(), envp.data());
      const int error = errno;
      if (write(failure_write.get(), &error, sizeof error) < 0) _exit(kCannotStart);
      _exit(kCannotStart);
    }
    child.running = true;
    failure_write = {};
    int error = 0;
    ssize_t n;
    do n = read(failure_read.get(), &error, sizeof error);
    while (n < 0 && errno == EINTR);
    if (n != sizeof error) return true; // the pipe closed by a successful exec
    std::fprintf(stderr, "rondo: cannot run '%s': %s\n", argv[0], std::strerror(error));
    reported_ = true;
    status_ = kCannotStart; // the rank itself may be killed before it has ended with that
    return false;
  }

  /// Waits for one event: a signal, output, or the end of a grace period.
  void step() {
    std::vector<pollfd> polls = {{signals_.fd(), POLLIN, 0}};
    std::vector<std::pair<Child*, Output*>> sources;
    for (Child& child : children_) {
      for (Output& output : child.outputs) {
        if (!output.from) continue;
        polls.push_back({output.from.get(), POLLIN, 0});
        sources.emplace_back(&child, &output);
      }
    }
    if (poll(polls.data(), polls.size(), waitMilliseconds()) < 0 && errno != EINTR) fail("poll");
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (polls[i + 1].revents != 0) drain(*sources[i].first, *sources[i].second);
    }
    readSignals();
    reap();
    if (next_ && Clock::now() >= *next_) escalate();
  }

  int waitMilliseconds() const {
    if (!next_) return -1;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(*next_ - Clock::now()).count();
    return static_cast<int>(std::max<long long>(left + 1, 0));
  }

  void readSignals() {
    signalfd_siginfo info;
    while (read(signals_.fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      if (interrupted_) {
        if (Clock::now() - *interrupted_ >= kOneAsking) signalAll(SIGKILL); // asked twice
        continue;
      }
      interrupted_ = Clock::now();
      // The kernel sent a terminal's signal to the ranks as well.
      if (info.ssi_code != SI_KERNEL) signalAll(signal);
      if (!options_.patient) startGrace();
    }
  }

  void reap() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      Child& child = children_[rank];
      int status = 0;
      if (!child.running || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
      child.running = false;
      launch_.ended(static_cast<int>(rank));
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      const bool own_doing = stopping_ || reported_ || interrupted_.has_value();
      // The others see a rank's connections break before its parent sees it dead: one that a signal
      // killed is the cause even if another, which suffered from it, was quicker to end.
      const bool killed = WIFSIGNALED(status) && !own_doing;
      const bool cause = status_ == 0 || (killed && !cause_killed_);
      if (cause) {
        status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        cause_ = static_cast<int>(rank);
        cause_killed_ = killed;
        startGrace();
      }
      // Ranks that this launcher ended, or that fail because another did, need no line.
      if (killed || (cause && options_.report_status && !own_doing)) {
        std::fprintf(stderr, "rondo: rank %zu (pid %d) %s\n", rank, static_cast<int>(child.pid),
                     endText(status).c_str());
      }
    }
  }

  void startGrace() {
    if (!next_) next_ = Clock::now() + options_.grace;
  }

  void escalate() {
    if (stopping_) {
      signalAll(SIGKILL);
      next_.reset();
      return;
    }
    stopping_ = true;
    std::string late;
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      if (children_[rank].running) late += (late.empty() ? "" : ", ") + std::to_string(rank);
    }
    const std::string cause =
        cause_ < 0 ? "the signal" : "rank " + std::to_string(cause_) + " failed";
    std::fprintf(stderr, "rondo: still running %.1f s after %s, stopping them: rank %s\n",
                 std::chrono::duration<double>(options_.grace).count(), cause.c_str(),
                 late.c_str());
    signalAll(SIGTERM);
    next_ = Clock::now() + kAfterTerm;
  }

  /// Passes on what a rank wrote, line by line.
  void drain(const Child& child, Output& output) {
    if (!output.from) return;
    const auto rank = static_cast<std::size_t>(&child - children_.data());
    const std::string tag = "[" + std::to_string(rank) + "] ";
    std::array<char, 65536> buffer;
    ssize_t n;
    std::string text;
    while ((n = read(output.from.get(), buffer.data(), buffer.size())) > 0) {
      for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(n))) {
        output.line += c;
        if (c != '\n') continue;
        text += tag + output.line;
        output.line.clear();
      }
      writeAll(output.to, text);
      text.clear();
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && child.running) return;
    if (!output.line.empty()) writeAll(output.to, tag + output.line + "\n");
    output.line.clear();
    output.from = {};
  }

  const SpawnOptions& options_;
  SignalWatch signals_; // before the launch: its thread must not take the signals
  Launch launch_;
  const std::vector<topology::Processors> places_; ///< empty: nobody is bound
  std::vector<Child> children_;
  std::optional<Clock::time_point> next_; ///< end of the present grace period
  int status_ = 0;
  int cause_ = -1; ///< rank that status_ is of
  bool cause_killed_ = false;
  bool stopping_ = false, reported_ = false;
  std::optional<Clock::time_point> interrupted_; ///< by the first signal
};

} // namespace

int spawnRanks(const SpawnOptions& options) { return Job(options).run(); }

std::string ownExecutable() {
  const std::string link = "/proc/self/exe";
  std::array<char, 4096> path;
  const ssize_t size = readlink(link.c_str(), path.data(), path.size());
  if (size <= 0 || static_cast<std::size_t>(size) >= path.size()) return link;
  std::string own(path.data(), static_cast<std::size_t>(size));
  // A program replaced while it runs can still be reached by the link.
  return access(own.c_str(), X_OK) == 0 ? own : link;
}

} // namespace rondo::tools
