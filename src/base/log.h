// What the library says while it runs: one line per message, on stderr or in a file.
#pragma once

#include <atomic>
#include <sstream>
#include <string>
#include <string_view>

#include "rondo/options.h"

namespace rondo::base {

/// "none", "error", "warn", "info", "trace"; any case; NCCL's "version" means warn, its "abort"
/// info.
/// Throws Error(invalid_argument) that lists them.
LogLevel parseLogLevel(std::string_view text, std::string_view what);
std::string_view name(LogLevel level);

/// Level and file for this process from now on; the last call wins. Until the first call
/// RONDO_DEBUG and RONDO_DEBUG_FILE (or NCCL's) rule, or their defaults where those are wrong.
/// Throws Error(system) when the file cannot be opened; the old one then stays in use.
void configureLog(LogLevel level, const std::string& file);
/// Throws as configureLog() would now for the file.
void tryLogFile(const std::string& file);

namespace detail {
/// Level in use; below zero: not configured yet.
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
/// write(): lines of threads and processes do not mix. Control characters are escaped. When the
/// level is off it costs one load. Any thread; never throws for what the file system does.
template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
  if (!logs(level)) return;
  std::ostringstream text;
  (text << ... << parts);
  detail::writeLog(level, text.str());
}

/// Names the rank in this thread's log lines, for as long as it lives. They nest.
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
