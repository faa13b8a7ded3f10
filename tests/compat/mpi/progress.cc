// Counts and reports the cases of the test programs.
#include "progress.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>

#include "library.h"

namespace rondo::test {
namespace {

// Read by the signal handler, so it is plain memory.
std::array<char, 512> current_line{};

void tellWhere(int signal) {
  const auto end = std::find(current_line.begin(), current_line.end(), '\0');
  const auto length = static_cast<std::size_t>(end - current_line.begin());
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, current_line.data(), length);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

} // namespace

Progress::Progress(int rank) : rank_(rank) {
  for (const int each : {SIGTERM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) std::signal(each, tellWhere);
}

void Progress::begin(const std::string& what) {
  current_ = what;

  std::snprintf(current_line.data(), current_line.size(), "stopped in: rank %d: %s\n", rank_,
                what.c_str());
}

void Progress::end(const std::string& group, const std::string& difference) {
  ++cases_;
  if (difference.empty()) return;
  ++different_;
  if (different_in_[group]++ > 0) return;
  std::fprintf(stderr, "DIFFERENT: rank %d: %s: %s\n", rank_, current_.c_str(), difference.c_str());
}

bool Progress::report(const char* program) {
  begin("the report");
  for (const auto& [group, count] : different_in_) {
    std::fprintf(stderr, "rank %d: %s: %ld different\n", rank_, group.c_str(), count);
  }
  std::array<long, 2> sums{cases_, different_};
  original().Allreduce(MPI_IN_PLACE, sums.data(), 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank_ == 0) {
    std::printf("%s: %ld cases on %d ranks, %ld different\n", program, sums[0], size, sums[1]);
  }
  return sums[1] == 0;
}

} // namespace rondo::test
