// Counts calls and bytes, and prints them when MPI is finalized.
#include "compat/mpi/stats.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "compat/mpi/communicators.h"
#include "compat/mpi/errors.h"
#include "compat/mpi/ulfm.h"

namespace rondo::compat {

namespace {

constexpr const char* kFunctions[] = {
    "Allreduce",  "Reduce",   "Reduce_scatter", "Reduce_scatter_block",
    "Scan",       "Exscan",   "Bcast",          "Scatter",
    "Scatterv",   "Gather",   "Gatherv",        "Allgather",
    "Allgatherv", "Alltoall", "Alltoallv",      "Barrier"};
constexpr const char* kReasons[] = {"",
                                    "arguments that MPI refuses",
                                    "an operator that Rondo does not have",
                                    "a type that Rondo does not reduce with this operator",
                                    "an intercommunicator",
                                    "processes that need not have this library",
                                    "no blocking collective on the communicator before",
                                    "a communicator that Rondo could not open",
                                    "a communicator that is being freed"};
constexpr std::size_t kRows = std::size(kFunctions) * 2;
static_assert(std::size(kFunctions) == static_cast<std::size_t>(Function::barrier) + 1);
static_assert(std::size(kReasons) == static_cast<std::size_t>(Reason::inactive));

struct Sum {
  std::atomic<std::uint64_t> calls{0}, bytes{0};
};

std::array<std::array<Sum, std::size(kReasons)>, kRows> sums;

constexpr std::size_t kValues = kRows * std::size(kReasons) * 2;
using Values = std::array<std::uint64_t, kValues>; ///< calls and bytes of each row and reason

Values values() {
  Values result{};
  std::size_t at = 0;
  for (const auto& row : sums)
    for (const Sum& sum : row) {
      result[at++] = sum.calls.load(std::memory_order_relaxed);
      result[at++] = sum.bytes.load(std::memory_order_relaxed);
    }
  return result;
}

void print(const Values& all, const std::string& whose) {
  std::fprintf(stderr, "rondo_mpi: collective calls and bytes, %s\n", whose.c_str());
  std::size_t at = 0;
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t reason = 0; reason < std::size(kReasons); ++reason, at += 2) {
      if (all[at] == 0) continue;
      char name[32];
      const char* const function = kFunctions[row / 2];
      // After the I the function's name begins in lower case: MPI_Iallreduce.
      std::snprintf(name, sizeof name, row % 2 ? "I%c%s" : "%c%s",
                    row % 2 ? function[0] - 'A' + 'a' : function[0], function + 1);
      std::fprintf(stderr, "rondo_mpi: %-21s %-10s %12llu calls %16llu bytes%s%s\n", name,
                   reason ? "passed on" : "taken over", static_cast<unsigned long long>(all[at]),
                   static_cast<unsigned long long>(all[at + 1]), reason ? "  " : "",
                   kReasons[reason]);
    }
}

/// Sums all ranks' values on rank 0. Returns whether it could; all living ranks get the same answer
/// in a job with ULFM.
bool summed(const Values& mine, Values& all) {
  if (!everywhere(MPI_COMM_WORLD, true)) return false; // a rank has died
  const bool reduced = mpi().Reduce(mine.data(), all.data(), static_cast<int>(mine.size()),
                                    MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
  // A rank dies meanwhile: the others must not wait for one that has already got the error.
  if (!reduced && faultTolerant()) mpi().Comm_revoke(MPI_COMM_WORLD);
  return everywhere(MPI_COMM_WORLD, reduced);
}

} // namespace

bool stats_wanted = false;

void readStatsSetting() {
  const char* const value = std::getenv("RONDO_MPI_STATS");
  stats_wanted = value && std::strcmp(value, "1") == 0;
  if (value && !stats_wanted && std::strcmp(value, "0") != 0)
    std::fprintf(stderr, "rondo_mpi: RONDO_MPI_STATS is \"%s\": valid are 0 and 1\n", value);
}

void countCall(Function function, bool immediate, Reason reason, std::size_t bytes) {
  const std::size_t row = static_cast<std::size_t>(function) * 2 + (immediate ? 1 : 0);
  Sum& sum = sums[row][static_cast<std::size_t>(reason)];
  sum.calls.fetch_add(1, std::memory_order_relaxed);
  sum.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void printStats() {
  // A rank may have died, which is no error of MPI_Finalize.
  const ErrorsReturned quiet(MPI_COMM_WORLD);
  // RONDO_MPI_STATS may be set on some ranks only.
  if (everywhere(MPI_COMM_WORLD, !stats_wanted)) return;
  int rank = 0, size = 0;
  mpi().Comm_rank(MPI_COMM_WORLD, &rank);
  mpi().Comm_size(MPI_COMM_WORLD, &size);
  const Values mine = values();
  Values all{};
  if (summed(mine, all)) {
    if (rank == 0) print(all, "summed over " + std::to_string(size) + " ranks");
  } else if (stats_wanted) {
    print(mine, "of rank " + std::to_string(rank) + " alone, since they cannot be summed");
  }
}

} // namespace rondo::compat
