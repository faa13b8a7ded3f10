// A helper program in a process of its own, with its output line by line.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace rondo::test {

class Process {
 public:
  struct Settings {
    std::string program;
    std::vector<std::string> arguments;
    std::map<std::string, std::string> environment; ///< beside what is not a launcher's or ours
    int inherited = -1;                             ///< descriptor that it gets under its number
  };
  explicit Process(const Settings& settings);
  /// Kills what still runs.
  ~Process();
  Process(Process&&) = default;
  Process(const Process&) = delete;

  /// Next line of its output; empty when none came in time.
  std::string line(std::chrono::milliseconds limit = std::chrono::seconds(60));
  void tell(const std::string& text); ///< a line for its input
  void signal(int number);
  /// Status as a shell has it; nullopt when it did not end in time.
  std::optional<int> end(std::chrono::milliseconds limit = std::chrono::seconds(60));

 private:
  struct Pid {
    pid_t value = -1;
    Pid() = default;
    Pid(Pid&& other) noexcept : value(other.value) { other.value = -1; }
  };
  Pid pid_;
  base::UniqueFd input_, output_;
  std::string read_;
};

/// A loopback TCP port that nobody listens on.
int freePort();

} // namespace rondo::test
