// Tests what MPI promises besides results: order, threads, errors, and the end of a rank.
//
//   compat_mpi_semantics CHECK
//
// Prints "CHECK: ok" on rank 0. The checks fatal, killed and abort end the job in another way.
// In unfinalized and exit all ranks end without MPI_Finalize, and all but the first print that
// they continued.
#include "semantics.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace rondo::test {

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "FAILED: rank %d: %s\n", rankIn(MPI_COMM_WORLD), what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int rankIn(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int sizeOf(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

std::string programPath() { return std::filesystem::read_symlink("/proc/self/exe"); }

int errorClass(int code) {
  int found = 0;
  MPI_Error_class(code, &found);
  return found;
}

namespace {

struct Check {
  const char* name;
  void (*run)();
};

constexpr Check kChecks[] = {{"ordering", checkOrdering},
                             {"between", checkBetween},
                             {"apart", checkApart},
                             {"threads", checkThreads},
                             {"finalize", checkFinalize},
                             {"columns", checkColumns},
                             {"bottom", checkBottom},
                             {"unsigned", checkUnsigned},
                             {"late", checkLate},
                             {"nan", checkNan},
                             {"stopped", checkStopped},
                             {"immediate", checkImmediate},
                             {"idup", checkIdup},
                             {"spawned", checkSpawned},
                             {"child", checkChild},
                             {"many", checkMany},
                             {"refused", checkRefused},
                             {"aliased", checkAliased},
                             {"errors", checkErrors},
                             {"statistics", checkStatistics},
                             {"handler", checkHandler},
                             {"truncate", checkTruncate},
                             {"fatal", checkFatal},
                             {"killed", checkKilled},
                             {"abort", checkAbort},
                             {"unfinalized", checkUnfinalized},
                             {"exit", checkExit},
                             {"descriptors", checkDescriptors},
                             {"freed", checkFreed},
                             {"unmatched", checkUnmatched},
                             {"callback", checkCallback},
                             {"contiguous", checkContiguous},
                             {"large_element", checkLargeElement},
                             {"attributes", checkAttributes},
                             {"get_status", checkGetStatus},
                             {"nothing", checkNothing},
                             {"freed_error", checkFreedError}};

} // namespace
} // namespace rondo::test

int main(int argc, char** argv) {
  for (const auto& check : rondo::test::kChecks) {
    if (argc < 2 || std::strcmp(argv[1], check.name) != 0) continue;
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    const bool first = rondo::test::rankIn(MPI_COMM_WORLD) == 0;
    check.run();
    MPI_Finalize();
    if (first) std::printf("%s: ok\n", check.name);
    return 0;
  }
  std::fprintf(stderr, "usage: compat_mpi_semantics CHECK\n");
  return 2;
}
