// Writes the library's messages, one line each, to stderr or to a file. If a program is started
// with stderr closed, or closes it later, it has a log only in a file, since another file may get
// the number of stderr.
#pragma once

#include <atomic>
#include <sstream>
#include <string>
#include <string_view>

#include "rondo/options.h"

namespace rondo::base {

/// Parses "none", "error", "warn", "info" or "trace", in any case. NCCL's "version" means warn, and
/// its "abort" means info. Throws Error(invalid_argument) that lists the valid levels.
LogLevel parseLogLevel(std::string_view text, std::string_view what);
std::string_view name(LogLevel level);

/// Sets level and file of the log for this process; the last call wins. Before the first call,
/// RONDO_DEBUG and RONDO_DEBUG_FILE (or NCCL's variables) apply, or the defaults if these have
/// wrong values. Throws Error(system) if the file cannot be opened; the old one then stays in use.
void configureLog(LogLevel level, const std::string& file);
/// Throws what configureLog() would throw for this file.
void tryLogFile(const std::string& file);

namespace detail {
/// Level in use; negative: not configured yet.
extern std::atomic<int> log_level;
int configureLogFromEnvironment();
void writeLog(LogLevel level, std::string_view message);
} // namespace detail

inline bool logs(LogLevel level) {
  int now = detail::log_level.load(std::memory_order_relaxed);
  if (now < 0) now = detail::configureLogFromEnvironment();
  return static_cast<int>(level) <= now && level != LogLevel::none;
}

/// Writes the arguments, one after the other, as one line "host:pid [rank r] LEVEL text" by one
/// write(), so that lines of threads and processes do not mix. Control characters are escaped. If
/// the level is off, the cost is one load. Any thread. Errors of the file system are ignored.
template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
  if (!logs(level)) return;
  std::ostringstream text;
  (text << ... << parts);
  detail::writeLog(level, text.str());
}

/// Puts the rank into this thread's log lines while the object lives. May be nested.
class LogRank {
 public:
  explicit LogRank(int rank);
  ~LogRank();
  LogRank(const LogRank&) = delete;
  LogRank& operator=(const LogRank&) = delete;

 private:
  int outer_;
};

} // namespace rondo::base
