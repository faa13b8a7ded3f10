// Starts a command in a process group of its own, and cuts its output into dumps.
#include "tools/watch_remote.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace rondo::tools {

namespace {

constexpr std::size_t kMostBytes = 64 << 20;
constexpr std::chrono::seconds kStale{10};

/// Which process a dump is of, by its first line; empty if it is none.
std::string processOf(const std::string& dump) {
  const auto line = nlohmann::json::parse(dump.substr(0, dump.find('\n')), nullptr, false);
  if (!line.is_object() || !line.contains("host") || !line.contains("pid")) return "";
  const std::string began = line.contains("began_ns") ? line["began_ns"].dump() : "";
  return line["host"].dump() + ":" + line["pid"].dump() + ":" + began;
}

} // namespace

DumpStream::DumpStream(const std::string& command) : command_(command) {
  auto [read_end, write_end] = makePipe();
  ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  process_ = ::fork();
  if (process_ < 0)
    throw Error(ErrorCode::system, std::string("cannot start a process: ") + std::strerror(errno));
  if (process_ == 0) {
    ::setpgid(0, 0);
    ::dup2(write_end.get(), STDOUT_FILENO);
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  output_ = std::move(read_end);
}

DumpStream::~DumpStream() {
  for (int tries = 0; tries < 40; ++tries) {
    const int signal = tries < 20 ? SIGTERM : SIGKILL;
    ::kill(-process_, signal);
    ::kill(process_, signal); // it may not have its group yet
    if (::waitpid(process_, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
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
  std::erase_if(dumps_, [&](const auto& one) { return now - one.second.came > kStale; });
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
  return "";
}

} // namespace rondo::tools
