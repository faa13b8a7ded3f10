// Reads the dumps that a command prints, for example `ssh HOST rondo dump all -o - --interval 1`.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "tools/descriptor.h"

namespace rondo::tools {

/// Runs the command until the object or this process ends, in whatever way. What it prints is
/// untrusted: it must be parsed as a dump, and at most 64 MiB of it are kept.
class DumpStream {
 public:
  /// Throws Error(system) if no process can be made.
  explicit DumpStream(const std::string& command);
  ~DumpStream();
  DumpStream(const DumpStream&) = delete;
  DumpStream& operator=(const DumpStream&) = delete;

  /// The latest dump of each process. Does not wait.
  std::string latest();
  /// Whether the first dump may still come: none has come, the command runs, and less than 10 s
  /// have passed. Reads what has come.
  bool awaitsFirst();
  /// What is wrong: no dumps come, or some are left out. Empty if all is well.
  std::string trouble() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Dump {
    std::string text;
    Clock::time_point came;
  };
  void read();
  void split();

  const std::string command_;
  int process_ = -1; ///< the parent of the command
  Descriptor output_;
  std::string rest_;                  ///< the beginning of a dump
  std::map<std::string, Dump> dumps_; ///< by process
  Clock::time_point news_ = Clock::now();
  bool any_ = false; ///< a dump has come
  bool ended_ = false;
  bool full_ = false; ///< some dumps were left out
};

} // namespace rondo::tools
