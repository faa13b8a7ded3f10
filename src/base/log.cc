// Writes the process's log.
#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/parse.h"
#include "base/unique_fd.h"
#include "rondo/error.h"

namespace rondo::base {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"none", "error", "warn", "info", "trace"};
constexpr std::array<std::string_view, 5> kLevelTags = {"NONE", "ERROR", "WARN", "INFO", "TRACE"};
constexpr int kNoRank = -1;

thread_local int thread_rank = kNoRank;

/// The log of this process. Like stderr it exists once; it is the only global state of the library
/// that belongs to no object. Never destroyed, since threads may log while the process exits.
struct Sink {
  std::mutex mutex;
  std::shared_ptr<UniqueFd> file; ///< null: stderr
  std::string host;
  std::atomic<bool> without_stderr{false}; ///< stderr was found closed
};

std::string hostName() {
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0) return "localhost";
  return buffer.data();
}

Sink& sink() {
  const NoFork whole; // a child would wait for ever for an initialisation that it inherits
  static Sink& instance = *[] {
    auto* made = new Sink;
    made->host = hostName();
    return made;
  }();
  return instance;
}

/// Whether descriptor 2 is the program's standard error. Once it is found closed, another file may
/// get its number, so the log never writes there again.
bool hasStderr() {
  Sink& log = sink();
  if (::fcntl(STDERR_FILENO, F_GETFD) < 0) log.without_stderr.store(true);
  return !log.without_stderr.load();
}

/// Looks before the program opens any file.
[[maybe_unused]] const bool had_stderr = hasStderr();

/// Replaces %h by the host name, %p by the process id and %% by a percent sign; leaves the rest.
std::string expand(const std::string& pattern, const std::string& host) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') path += host;
    else if (next == 'p') path += std::to_string(::getpid());
    else if (next == '%') path += '%';
    else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

std::shared_ptr<UniqueFd> openFile(const std::string& pattern) {
  if (pattern.empty()) return nullptr;
  const std::string path = expand(pattern, sink().host);
  auto file = std::make_shared<UniqueFd>(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!*file) {
    throw Error(ErrorCode::system,
                "cannot open the log file " + quoted(path) + ": " + std::strerror(errno));
  }
  file->shareWithChildren(); // children log to the same file
  return file;
}

const char* environment(const char* variable, const char* alias) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : std::getenv(alias);
}

/// write() without its signals, which would end the program: SIGPIPE if nothing reads the pipe any
/// more, SIGXFSZ if the file has reached the limit of its size.
void writeWithoutSignals(int fd, const std::string& line) {
  sigset_t ours{}, before{}, waiting{};
  ::sigpending(&waiting);
  ::sigemptyset(&ours);
  for (const int signal : {SIGPIPE, SIGXFSZ}) // a pending one belongs to the program
    if (::sigismember(&waiting, signal) == 0) ::sigaddset(&ours, signal);
  ::pthread_sigmask(SIG_BLOCK, &ours, &before);
  ssize_t written = 0;
  do {
    written = ::write(fd, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  constexpr timespec kNow{};
  // A part may have been written before the pipe closed.
  if (written != static_cast<ssize_t>(line.size())) ::sigtimedwait(&ours, nullptr, &kNow);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

} // namespace

LogLevel parseLogLevel(std::string_view text, std::string_view what) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (equalIgnoringCase(text, kLevelNames[i])) return static_cast<LogLevel>(i);
  }
  if (equalIgnoringCase(text, "version")) return LogLevel::warn;
  if (equalIgnoringCase(text, "abort")) return LogLevel::info;
  throw Error(ErrorCode::invalid_argument, std::string(what) + ": unknown level " + quoted(text) +
                                               "; valid: " + join(kLevelNames, ", "));
}

std::string_view name(LogLevel level) { return kLevelNames[static_cast<std::size_t>(level)]; }

void tryLogFile(const std::string& file) { openFile(file); }

void configureLog(LogLevel level, const std::string& file) {
  std::shared_ptr<UniqueFd> opened = openFile(file);
  Sink& log = sink();
  const NoFork whole;
  std::lock_guard lock(log.mutex);
  log.file = std::move(opened);
  detail::log_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

namespace detail {

std::atomic<int> log_level{-1};

int configureLogFromEnvironment() {
  // Options::fromEnvironment() reports wrong values, since it can throw. Here they must only not
  // suppress messages.
  LogLevel level = Options{}.log_level;
  std::shared_ptr<UniqueFd> file;
  try {
    const char* text = environment("RONDO_DEBUG", "NCCL_DEBUG");
    if (text != nullptr && *text != '\0') level = parseLogLevel(text, "RONDO_DEBUG");
  } catch (const Error&) {
  }
  try {
    const char* pattern = environment("RONDO_DEBUG_FILE", "NCCL_DEBUG_FILE");
    if (pattern != nullptr) file = openFile(pattern);
  } catch (const Error&) {
  }
  Sink& log = sink();
  const NoFork whole;
  std::lock_guard lock(log.mutex);
  if (const int now = log_level.load(std::memory_order_relaxed); now >= 0) return now;
  log.file = std::move(file);
  log_level.store(static_cast<int>(level), std::memory_order_relaxed);
  return static_cast<int>(level);
}

void writeLog(LogLevel level, std::string_view message) {
  constexpr char kHex[] = "0123456789abcdef";
  Sink& log = sink();
  std::string line = log.host + ":" + std::to_string(::getpid()) + " ";
  if (thread_rank != kNoRank) line += "[rank " + std::to_string(thread_rank) + "] ";
  line += kLevelTags[static_cast<std::size_t>(level)];
  line += ' ';
  for (char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      line += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      line += c;
    }
  }
  line += '\n';

  std::shared_ptr<UniqueFd> file;
  {
    const NoFork whole;
    std::lock_guard lock(log.mutex);
    file = log.file;
  }
  if (!file && !hasStderr()) return;
  // A log that cannot be written must not make the program fail, so errors of write() are ignored.
  writeWithoutSignals(file ? file->get() : STDERR_FILENO, line);
}

} // namespace detail

LogRank::LogRank(int rank) : outer_(thread_rank) { thread_rank = rank; }
LogRank::~LogRank() { thread_rank = outer_; }

} // namespace rondo::base
