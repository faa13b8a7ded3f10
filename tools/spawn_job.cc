// Implements Job: starts the ranks, passes signals and output on, and ends them.
#include "tools/spawn_job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "rondo/error.h"
#include "tools/command.h"
#include "tools/spawn_processes.h"

namespace rondo::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCannotStart = 127;
constexpr std::chrono::milliseconds kAfterTerm{1000}; ///< from SIGTERM to SIGKILL
/// After a rank has failed, others that have the same error end in this time: the job has failed
/// then, and needs no new rank.
constexpr std::chrono::milliseconds kTogether{500};
constexpr std::size_t kLongestLine = std::size_t{1} << 20; ///< of tagged output; the rest follows

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::system, what + ": " + std::strerror(errno));
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

/// Not negative, and rounded up.
std::chrono::milliseconds until(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

} // namespace

Job::Job(const Settings& settings)
    : settings_(settings),
      options_(settings.options),
      launch_(settings.options.ranks),
      terminal_(settings.terminal_group),
      children_(static_cast<std::size_t>(settings.options.ranks)) {
  restarts_left_ = options_.restarts;
  if (options_.restarts == 0) return;
  rendezvous_file_ = Descriptor(memfd_create("rondo-rendezvous", MFD_CLOEXEC));
  if (!rendezvous_file_ || fchmod(rendezvous_file_.get(), 0600) != 0)
    fail("cannot make a file for the ranks' rendezvous");
}

Job::~Job() {
  for (Child& child : children_) {
    if (!child.running) continue;
    signalRank(child, SIGKILL);
    waitpid(child.pid, nullptr, 0);
  }
}

int Job::run() {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (!start(rank)) {
      signalAll(SIGKILL);
      break;
    }
  }
  while (anyRunning()) step(std::chrono::hours(1));
  endRemains();
  closing_ = true;
  for (Child& child : children_) {
    for (Output& output : child.outputs) drain(child, output, Amount::all);
  }
  return status_ == 0 && lost_ ? kError : status_;
}

std::size_t Job::running() const {
  return static_cast<std::size_t>(std::count_if(children_.begin(), children_.end(),
                                                [](const Child& child) { return child.running; }));
}

/// Signals the rank and the processes that it started, except those that have left its group.
void Job::signalRank(const Child& child, int signal) {
  kill(-child.pid, signal);
  if (getpgid(child.pid) != child.pid) kill(child.pid, signal);
}

void Job::signalAll(int signal) {
  for (const Child& child : children_) {
    if (child.running) signalRank(child, signal);
  }
}

/// In the rank's own process, between fork() and exec(): nothing here may allocate.
void Job::become(int rank, const std::array<Descriptor, 2>& outputs) {
  setpgid(0, 0);
  for (int i = 0; i < 2; ++i) {
    const Descriptor& end = outputs[static_cast<std::size_t>(i)];
    if (end) dup2(end.get(), i == 0 ? STDOUT_FILENO : STDERR_FILENO);
  }
  fcntl(launch_.descriptor(), F_SETFD, 0);
  if (rendezvous_file_) fcntl(rendezvous_file_.get(), F_SETFD, 0);
  // Binds before exec(), because the program's libraries count the processors that they may use.
  if (!settings_.places.empty())
    topology::bindThread(settings_.places[static_cast<std::size_t>(rank)]);
  pthread_sigmask(SIG_SETMASK, &settings_.signals.before(), nullptr);
}

std::vector<std::string> Job::variablesOf(int rank, bool again) const {
  std::vector<std::string> set = launch_.environment(rank);
  if (rendezvous_file_)
    set.push_back("RONDO_RENDEZVOUS_FILE=/proc/self/fd/" + std::to_string(rendezvous_file_.get()));
  if (again) set.emplace_back("RONDO_JOIN=1");
  return environmentWith(set);
}

/// Forks and executes; false, with a line on stderr, if the program cannot be started.
bool Job::start(int rank, bool again) {
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
  for (const std::string& word : options_.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> variables = variablesOf(rank, again);
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  const pid_t supervisor = getpid();

  child.pid = fork();
  if (child.pid < 0) fail("cannot start rank " + std::to_string(rank));
  if (child.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) _exit(kCannotStart); // it died before prctl() could see it
    become(rank, write_ends);
    execvpe(argv[0], argv.data(), envp.data());
    const int error = errno;
    if (::write(failure_write.get(), &error, sizeof error) < 0) _exit(kCannotStart);
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

/// Waits for one event (a signal, output, the launcher's end, or the end of a grace period), but at
/// most for the given time.
void Job::step(std::chrono::milliseconds most) {
  std::vector<pollfd> polls = {{settings_.signals.fd(), POLLIN, 0}};
  if (!launcher_lost_) polls.push_back({settings_.launcher.get(), POLLIN, 0});
  const std::size_t own = polls.size();
  std::vector<std::pair<Child*, Output*>> sources;
  for (Child& child : children_) {
    for (Output& output : child.outputs) {
      if (!output.from) continue;
      polls.push_back({output.from.get(), POLLIN, 0});
      sources.emplace_back(&child, &output);
    }
  }
  auto wait = waitAtMost(most);
  if (!losses_.empty()) wait = std::min(wait, until(losses_.front().decided));
  if (poll(polls.data(), polls.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR)
    fail("poll");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (polls[own + i].revents != 0) drain(*sources[i].first, *sources[i].second);
  }
  takeNews();
  decide();
}

std::chrono::milliseconds Job::waitAtMost(std::chrono::milliseconds most) const {
  return next_ ? std::min(until(*next_), most) : most;
}

/// Handles all events except output.
void Job::takeNews() {
  pollfd launcher = {settings_.launcher.get(), POLLIN, 0};
  if (!launcher_lost_ && poll(&launcher, 1, 0) > 0) loseLauncher();
  readSignals();
  reap();
  if (next_ && Clock::now() >= *next_) escalate();
}

void Job::readSignals() {
  while (const int signal = settings_.signals.read()) {
    if (signal == SIGCHLD) continue;
    if (signal == SIGTSTP) stopBy(SIGTSTP);
    else if (std::count(kEndingSignals.begin(), kEndingSignals.end(), signal) > 0)
      endBySignal(signal);
    else signalAll(signal);
  }
}

void Job::endBySignal(int signal) {
  if (!anyRunning()) hurried_ = true;
  if (interrupted_) {
    if (Clock::now() - *interrupted_ < kOneAsking) return;
    hurried_ = true; // this is the second request
    signalAll(SIGKILL);
    return;
  }
  interrupted_ = Clock::now();
  signalAll(signal);
  if (!options_.patient) startGrace();
}

/// Stops the whole job, like a job of a shell. The launcher sees this process stopped and stops
/// too. Later it continues this process by SIGCONT, which is passed on to the ranks.
void Job::stopBy(int signal) {
  signalAll(SIGTSTP);
  terminal_.takeBack();
  SignalWatch::stopBy(signal);
}

/// The launcher was killed or has crashed. Kills the ranks; no process needs the status any more.
void Job::loseLauncher() {
  launcher_lost_ = stopping_ = hurried_ = true;
  signalAll(SIGKILL);
}

void Job::reap() {
  for (std::size_t rank = 0; rank < children_.size(); ++rank) {
    Child& child = children_[rank];
    int status = 0;
    while (child.running && waitpid(child.pid, &status, WNOHANG | WUNTRACED) == child.pid) {
      if (WIFSTOPPED(status)) noteStop(child, WSTOPSIG(status));
      else noteEnd(rank, status);
    }
  }
  // Processes that ranks have started and left, which are children of this one now.
  siginfo_t ended{};
  while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0) {
    const pid_t pid = std::exchange(ended.si_pid, 0);
    const auto is = [pid](const Child& child) { return child.running && child.pid == pid; };
    if (std::any_of(children_.begin(), children_.end(), is)) return; // SIGCHLD is pending
    waitpid(pid, nullptr, WNOHANG);
  }
}

/// Handles a rank that was stopped. Ranks that were stopped by a program, such as a debugger, stay
/// stopped. A rank that reads from the terminal without having it gets it, and Ctrl-Z in the rank
/// that has the terminal stops the whole job.
void Job::noteStop(const Child& child, int signal) {
  if (!terminal_.isThere()) return;
  if (signal == SIGTSTP && terminal_.isLentTo(child.pid)) return stopBy(SIGTSTP);
  if (signal != SIGTTIN && signal != SIGTTOU) return;
  if (!terminal_.lend(child.pid)) stopBy(signal); // until the shell's `fg`
  signalRank(child, SIGCONT);
}

/// Whether the job may go on after a rank has ended so. Wrong arguments and stops concern all
/// ranks.
bool Job::mayGoOn(int status) const {
  if (stopping_ || reported_ || interrupted_ || status_ != 0) return false;
  if (restarts_left_ == 0 && options_.least == 0) return false;
  return !WIFEXITED(status) || (WEXITSTATUS(status) != kUsage && WEXITSTATUS(status) != kStopped);
}

/// Whether the job goes on without the rank, or with the rank started again.
bool Job::goesOn(const Loss& loss) {
  if (stopping_ || reported_ || status_ != 0) return false;
  const bool may_start = restarts_left_ > 0 && anyRunning();
  const int good = static_cast<int>(running()) + succeeded_;
  if (!may_start && (options_.least == 0 || good < options_.least)) return false;
  const bool again = may_start && !interrupted_; // not after a signal
  Child& child = children_[loss.rank];
  std::fprintf(stderr, "%srondo: rank %zu (pid %d) %s; %s\n", options_.line_begin, loss.rank,
               static_cast<int>(child.pid), endText(loss.status).c_str(),
               again          ? "starting it again"
               : anyRunning() ? "the others go on"
                              : "the others have ended");
  if (!again) return true;
  --restarts_left_;
  for (Output& output : child.outputs) drain(child, output, Amount::all);
  return start(static_cast<int>(loss.rank), true);
}

/// Decides what the losses mean that are due.
void Job::decide() {
  while (!losses_.empty() && (!anyRunning() || Clock::now() >= losses_.front().decided)) {
    const Loss loss = losses_.front();
    losses_.erase(losses_.begin());
    if (!goesOn(loss)) failBy(loss.rank, loss.status);
  }
}

void Job::noteEnd(std::size_t rank, int status) {
  Child& child = children_[rank];
  child.running = false;
  launch_.ended(static_cast<int>(rank));
  const bool had_terminal = terminal_.isLentTo(child.pid);
  if (had_terminal) terminal_.takeBack();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    ++succeeded_;
    return;
  }
  // Ctrl-C has reached this rank alone, but is meant for all.
  const bool by_terminal = had_terminal && WIFSIGNALED(status) &&
                           (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT);
  if (by_terminal) endBySignal(WTERMSIG(status));
  if (mayGoOn(status)) losses_.push_back({rank, status, Clock::now() + kTogether});
  else failBy(rank, status);
}

/// Fails the job. This rank may be, or become, the cause.
void Job::failBy(std::size_t rank, int status) {
  const Child& child = children_[rank];
  const bool own_doing = stopping_ || reported_ || interrupted_.has_value();
  // Other ranks may notice the broken connections of a dead rank and end before its parent sees its
  // death. So a rank that was killed by a signal is the cause, even if another rank ended earlier.
  const bool killed = WIFSIGNALED(status) && !own_doing;
  const bool cause = status_ == 0 || (killed && !cause_killed_);
  if (cause) {
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    cause_ = static_cast<int>(rank);
    cause_killed_ = killed;
    // A rank that has stopped as it was asked to says nothing of the others, which may take longer.
    const bool stopped = WIFEXITED(status) && WEXITSTATUS(status) == kStopped;
    if (!(options_.patient && interrupted_ && stopped)) startGrace();
  }
  // Ranks that this launcher ended, or that fail because another did, need no line.
  if (killed || (cause && options_.report_status && !own_doing)) {
    std::fprintf(stderr, "%srondo: rank %zu (pid %d) %s\n", options_.line_begin, rank,
                 static_cast<int>(child.pid), endText(status).c_str());
  }
}

void Job::startGrace() {
  if (!next_) next_ = Clock::now() + options_.grace;
}

void Job::escalate() {
  next_.reset();
  if (!anyRunning()) return;
  if (stopping_) return signalAll(SIGKILL);
  stopping_ = true;
  std::string late;
  for (std::size_t rank = 0; rank < children_.size(); ++rank) {
    if (children_[rank].running) late += (late.empty() ? "" : ", ") + std::to_string(rank);
  }
  const std::string cause =
      cause_ < 0 ? "the signal" : "rank " + std::to_string(cause_) + " failed";
  std::fprintf(stderr, "%srondo: still running %.1f s after %s, stopping them: rank %s\n",
               options_.line_begin, std::chrono::duration<double>(options_.grace).count(),
               cause.c_str(), late.c_str());
  signalAll(SIGTERM);
  next_ = Clock::now() + kAfterTerm;
}

/// Ends processes that ranks started and left running. Still passes their output on: a rank's `tee`
/// may hold the last lines.
void Job::endRemains() {
  constexpr std::chrono::milliseconds kPause{20};
  EndOptions end;
  for (const Child& child : children_)
    if (child.pid > 0) end.groups.push_back(child.pid);
  end.wait = [&] {
    if (hasChildren()) step(kPause);
    return hurried_;
  };
  endDescendants(end);
}

/// Writes the text. Handles other events while it waits for room. Returns false if the text cannot
/// be written any more, for example to a pipe without a reader.
bool Job::write(int fd, std::string_view text) {
  constexpr std::size_t kOnce = PIPE_BUF; // a writable pipe takes so many bytes without blocking
  while (!text.empty()) {
    std::array<pollfd, 3> polls = {{{fd, POLLOUT, 0},
                                    {settings_.signals.fd(), POLLIN, 0},
                                    {launcher_lost_ ? -1 : settings_.launcher.get(), POLLIN, 0}}};
    const auto wait = static_cast<int>(waitAtMost(std::chrono::hours(1)).count());
    if (poll(polls.data(), polls.size(), wait) < 0 && errno != EINTR) return false;
    if (polls[0].revents == 0) {
      takeNews();
      if (launcher_lost_) return false;
      continue;
    }
    const ssize_t n = ::write(fd, text.data(), std::min(text.size(), kOnce));
    if (n < 0 && errno != EINTR && errno != EAGAIN) return noteLoss(fd), false;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// Says once that output is lost, as errno tells. A pipe's reader that has ended, such as `head`,
/// wants no more.
void Job::noteLoss(int fd) {
  if (errno == EPIPE || lost_) return;
  lost_ = true;
  const char* const stream = fd == STDOUT_FILENO ? "standard output" : "standard error";
  reportError(Error(ErrorCode::system,
                    std::string("cannot write ") + stream + ": " + std::strerror(errno)));
}

/// Passes on what a rank wrote, line by line. The rank's next write fails where this one does.
void Job::drain(const Child& child, Output& output, Amount amount) {
  if (!output.from) return;
  const auto rank = static_cast<std::size_t>(&child - children_.data());
  const std::string tag = "[" + std::to_string(rank) + "] ";
  std::array<char, 65536> buffer;
  // A process may write faster than this one reads, so there is always an end.
  ssize_t left = amount == Amount::all ? fcntl(output.from.get(), F_GETPIPE_SZ) + 1 : 1;
  ssize_t n = 1;
  bool written = true;
  for (; written && left > 0 && (n = read(output.from.get(), buffer.data(), buffer.size())) > 0;
       left -= n) {
    std::string text;
    for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(n))) {
      output.line += c;
      if (output.line.size() == kLongestLine && c != '\n') output.line += '\n';
      if (output.line.back() != '\n') continue;
      text += tag + output.line;
      output.line.clear();
    }
    written = write(output.to, text);
  }
  const bool open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  if (written && open && !closing_) return;
  if (written && !output.line.empty()) write(output.to, tag + output.line + "\n");
  output.line.clear();
  output.from = {};
}

} // namespace rondo::tools
