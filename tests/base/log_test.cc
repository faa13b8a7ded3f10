// Proves: messages are whole lines with any number of threads; levels filter; texts cannot forge
// lines; and a message whose level is off is not even formatted.
#include "base/log.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <ostream>
#include <set>
#include <thread>
#include <vector>

#include "rondo/error.h"
#include "support/forked_child.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace base;

/// Logs into a temporary file while the object lives.
class LogFile {
 public:
  explicit LogFile(LogLevel level)
      : pattern_("/tmp/rondo_log_test.%p.%h.%%.log"), path_(expanded()) {
    configureLog(level, pattern_);
  }
  ~LogFile() {
    configureLog(LogLevel::warn, "");
    ::unlink(path_.c_str());
  }
  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> result;
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }
  static std::string host() {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
  }

 private:
  static std::string expanded() {
    return "/tmp/rondo_log_test." + std::to_string(::getpid()) + "." + host() + ".%.log";
  }
  std::string pattern_, path_;
};

/// Counts how often it is formatted.
struct Printed {
  int* times;
};
std::ostream& operator<<(std::ostream& out, const Printed& printed) {
  ++*printed.times;
  return out << "printed";
}

} // namespace

TEST_CASE("a level shows its own and more severe messages, and formats no others") {
  const LogLevel levels[] = {LogLevel::none, LogLevel::error, LogLevel::warn, LogLevel::info,
                             LogLevel::trace};
  for (LogLevel set : levels) {
    const LogFile file(set);
    int times = 0;
    for (LogLevel level : levels) log(level, Printed{&times});
    CHECK(times == static_cast<int>(set));
    CHECK(file.lines().size() == static_cast<std::size_t>(set));
    for (LogLevel level : levels) {
      CHECK(logs(level) == (level != LogLevel::none && level <= set));
    }
  }
}

TEST_CASE("a line names host, process, rank and level") {
  const LogFile file(LogLevel::info);
  log(LogLevel::info, "a ", 1, ' ', 2.5);
  {
    const LogRank outer(3);
    log(LogLevel::warn, "b");
    {
      const LogRank inner(7);
      log(LogLevel::error, "c");
    }
    log(LogLevel::info, "d");
  }
  log(LogLevel::info, "e");
  const std::string head = LogFile::host() + ":" + std::to_string(::getpid()) + " ";
  CHECK(file.lines() == std::vector<std::string>{head + "INFO a 1 2.5", head + "[rank 3] WARN b",
                                                 head + "[rank 7] ERROR c",
                                                 head + "[rank 3] INFO d", head + "INFO e"});
}

TEST_CASE("a text cannot begin a new line or send control characters to a terminal") {
  const LogFile file(LogLevel::info);
  log(LogLevel::info, "x\nforged:1 ERROR y\x1b[2J\r");
  REQUIRE(file.lines().size() == 1);
  CHECK(file.lines()[0].find("x\\x0aforged:1 ERROR y\\x1b[2J\\x0d") != std::string::npos);
}

TEST_CASE("lines of many threads do not mix") {
  const LogFile file(LogLevel::info);
  constexpr int kThreads = 8, kLines = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      const LogRank rank(t);
      for (int i = 0; i < kLines; ++i)
        log(LogLevel::info, "line ", t, ".", i, std::string(200, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> seen;
  const std::string head = LogFile::host() + ":" + std::to_string(::getpid()) + " ";
  for (const std::string& line : file.lines()) seen.insert(line);
  CHECK(seen.size() == kThreads * kLines);
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kLines; ++i) {
      CHECK(seen.count(head + "[rank " + std::to_string(t) + "] INFO line " + std::to_string(t) +
                       "." + std::to_string(i) + std::string(200, 'x')) == 1);
    }
  }
}

TEST_CASE("a log that cannot be written does not end the program, and no signal stays pending") {
  for (const int signal : {SIGPIPE, SIGXFSZ})
    for (const bool blocked : {false, true}) {
      CAPTURE(signal, blocked);
      std::array<int, 2> ends{};
      REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
      ::close(ends[0]);
      Child child([&] {
        ::signal(signal, SIG_DFL);
        sigset_t one{}, now{};
        ::sigemptyset(&one);
        ::sigaddset(&one, signal);
        ::pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &one, nullptr);
        const rlimit nothing{};
        ::setrlimit(RLIMIT_FSIZE, &nothing);
        ::dup2(signal == SIGPIPE ? ends[1] : ::memfd_create("full", 0), STDERR_FILENO);
        log(LogLevel::error, "unread");
        ::pthread_sigmask(SIG_BLOCK, nullptr, &now);
        if ((::sigismember(&now, signal) != 0) != blocked) return 1;
        ::sigpending(&now);
        return ::sigismember(&now, signal) == 0 ? 0 : 2;
      });
      ::close(ends[1]);
      CHECK(child.end() == 0);
    }
}

TEST_CASE("a file that cannot be opened is an error that names it, and the old log stays in use") {
  const LogFile file(LogLevel::info);
  try {
    configureLog(LogLevel::trace, "/nonexistent-folder/x.log");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::system);
    CHECK(std::string(error.what()).find("/nonexistent-folder/x.log") != std::string::npos);
  }
  CHECK_FALSE(logs(LogLevel::trace));
  log(LogLevel::info, "still here");
  CHECK(file.lines().size() == 1);
}

} // namespace rondo::test
