// What a program is doing, told when it differs, is stopped by a signal, or ends.
#pragma once

#include <map>
#include <string>

namespace compat {

/// Counts cases, prints the first difference of each rank and each collective.
class Progress {
 public:
  /// Says on SIGTERM what the rank was in, so that a hang has a name; a crash likewise.
  explicit Progress(int rank);

  void begin(const std::string& what);
  /// `group` is what is counted together; an empty `difference` is a case that holds.
  void end(const std::string& group, const std::string& difference);

  /// Collective over MPI_COMM_WORLD: prints the sums, returns whether every rank saw none differ.
  bool report(const char* program);

 private:
  int rank_;
  long cases_ = 0;
  long different_ = 0;
  std::string current_;
  std::map<std::string, long> different_in_;
};

} // namespace compat
