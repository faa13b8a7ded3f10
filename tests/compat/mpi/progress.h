// Reports what a test program is doing when results differ, when a signal stops it, or
// when it ends.
#pragma once

#include <map>
#include <string>

namespace rondo::test {

/// Counts cases, and prints the first difference of each rank and each collective.
class Progress {
 public:
  /// On SIGTERM or a crash, prints the case in which the rank was, so that a hang can be found.
  explicit Progress(int rank);

  void begin(const std::string& what);
  /// `group` is counted together; an empty `difference` is a success.
  void end(const std::string& group, const std::string& difference);

  /// Collective over MPI_COMM_WORLD: prints the sums; returns whether no rank found a difference.
  bool report(const char* program);

 private:
  int rank_;
  long cases_ = 0;
  long different_ = 0;
  std::string current_;
  std::map<std::string, long> different_in_;
};

} // namespace rondo::test
