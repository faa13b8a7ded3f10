// Starts a command in a process group that ends with this process, and cuts its output into dumps.
#include "tools/watch_remote.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace rondo::tools {

namespace {

constexpr std::size_t kMostBytes = 64 << 20, kLongestLine = 64 << 10;
/// What a dump costs besides its text.
constexpr std::size_t kEntryBytes = 256;
constexpr std::chrono::seconds kStale{10};

/// Which process a dump is of, by its first line; empty if it is none.
std::string processOf(const std::string& dump) {
  const std::size_t length = dump.find('\n');
  if (length > kLongestLine) return "";
  const auto line = nlohmann::json::parse(dump.substr(0, length), nullptr, false);
  try {
    return line.at("host").get<std::string>() + ":" +
           std::to_string(line.at("pid").get<std::int64_t>()) + ":" +
           std::to_string(line.value("began_ns", std::uint64_t{0}));
  } catch (const nlohmann::json::exception&) {
    return "";
  }
}

/// Runs the command, and ends its process group on SIGTERM, which also comes when the parent ends
/// in any way. Only async-signal-safe calls.
[[noreturn]] void guard(const char* command, int output, pid_t parent) {
  sigset_t end, before;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &end, &before);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const pid_t child = ::getppid() == parent ? ::fork() : -1;
  if (child < 0) ::_exit(127);
  if (child == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    ::execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(output);
  int signal = 0;
  ::sigwait(&end, &signal);
  ::kill(0, SIGTERM);
  for (int tries = 0; tries < 20; ++tries) {
    if (::waitpid(child, nullptr, WNOHANG) != 0) ::_exit(0);
    ::usleep(50'000);
  }
  ::kill(0, SIGKILL);
  ::_exit(0);
}

} // namespace

DumpStream::DumpStream(const std::string& command) : command_(command) {
  auto [read_end, write_end] = makePipe();
  ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  const pid_t own = ::getpid();
  process_ = ::fork();
  if (process_ < 0)
    throw Error(ErrorCode::system, std::string("cannot start a process: ") + std::strerror(errno));
  if (process_ == 0) guard(command.c_str(), write_end.get(), own);
  output_ = std::move(read_end);
}

DumpStream::~DumpStream() {
  ::kill(process_, SIGTERM);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void DumpStream::read() {
  std::array<char, 65536> piece;
  while (!ended_ && rest_.size() < kMostBytes) {
    const ssize_t got = ::read(output_.get(), piece.data(), piece.size());
    if (got > 0) rest_.append(piece.data(), static_cast<std::size_t>(got));
    else if (got == 0) ended_ = true;
    else if (errno != EINTR) return;
  }
}

void DumpStream::split() {
  std::size_t begin = 0, line = 0;
  for (std::size_t end; (end = rest_.find('\n', line)) != std::string::npos; line = end + 1) {
    if (rest_.compare(line, 7, "{\"end\":") != 0) continue;
    std::string dump = rest_.substr(begin, end + 1 - begin);
    begin = end + 1;
    const std::string process = processOf(dump);
    if (process.empty()) continue;
    dumps_[process] = {std::move(dump), news_ = Clock::now()};
    any_ = true;
  }
  rest_.erase(0, begin);
  if (rest_.size() >= kMostBytes) rest_.clear();
}

std::string DumpStream::latest() {
  read();
  split();
  const auto now = Clock::now();
  std::size_t kept = 0;
  std::erase_if(dumps_, [&](const auto& one) {
    if (now - one.second.came > kStale) return true;
    kept += one.second.text.size() + kEntryBytes;
    return kept > kMostBytes;
  });
  full_ = kept > kMostBytes;
  std::string all;
  for (const auto& [process, dump] : dumps_) all += dump.text;
  return all;
}

bool DumpStream::awaitsFirst() {
  read();
  split();
  return !any_ && !ended_ && Clock::now() - news_ < kStale;
}

std::string DumpStream::trouble() const {
  if (ended_) return "'" + command_ + "' has ended";
  if (Clock::now() - news_ > kStale) return "no dump comes from '" + command_ + "'";
  if (full_)
    return "'" + command_ +
           "' prints more than 64 MiB of dumps, so that some ranks are left out; give `rondo dump` "
           "there a smaller --last";
  return "";
}

} // namespace rondo::tools
