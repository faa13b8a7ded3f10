// A helper program in its own process, with its output line by line.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "support/free_port.h"

namespace rondo::test {

class Process {
 public:
  struct Settings {
    std::string program;
    std::vector<std::string> arguments;
    /// In addition to this process's variables, without those of launchers and Rondo.
    std::map<std::string, std::string> environment;
    int inherited = -1; ///< descriptor that it inherits under the same number
  };
  explicit Process(const Settings& settings);
  /// Kills the process if it still runs.
  ~Process();
  Process(Process&&) = default;
  Process(const Process&) = delete;

  /// Next line of its output; empty after the time limit.
  std::string line(std::chrono::milliseconds limit = std::chrono::seconds(60));
  void tell(const std::string& text); ///< sends a line to its input
  void hangUp() { input_.reset(); }   ///< closes its standard input
  void signal(int number);
  /// Exit status as in a shell; nullopt after the time limit.
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

} // namespace rondo::test
