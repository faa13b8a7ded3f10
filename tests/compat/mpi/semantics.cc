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

namespace compat {

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

} // namespace compat

namespace {

struct Check {
  const char* name;
  void (*run)();
};

constexpr Check kChecks[] = {
    {"ordering", compat::checkOrdering}, {"between", compat::checkBetween},
    {"apart", compat::checkApart},       {"threads", compat::checkThreads},
    {"finalize", compat::checkFinalize}, {"columns", compat::checkColumns},
    {"bottom", compat::checkBottom},     {"unsigned", compat::checkUnsigned},
    {"late", compat::checkLate},         {"nan", compat::checkNan},
    {"stopped", compat::checkStopped},   {"immediate", compat::checkImmediate},
    {"idup", compat::checkIdup},         {"spawned", compat::checkSpawned},
    {"child", compat::checkChild},       {"many", compat::checkMany},
    {"refused", compat::checkRefused},   {"aliased", compat::checkAliased},
    {"errors", compat::checkErrors},     {"statistics", compat::checkStatistics},
    {"handler", compat::checkHandler},   {"truncate", compat::checkTruncate},
    {"fatal", compat::checkFatal},       {"killed", compat::checkKilled},
    {"abort", compat::checkAbort},       {"unfinalized", compat::checkUnfinalized},
    {"exit", compat::checkExit},         {"descriptors", compat::checkDescriptors},
    {"freed", compat::checkFreed},       {"unmatched", compat::checkUnmatched}};

} // namespace

int main(int argc, char** argv) {
  for (const Check& check : kChecks) {
    if (argc < 2 || std::strcmp(argv[1], check.name) != 0) continue;
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    const bool first = compat::rankIn(MPI_COMM_WORLD) == 0;
    check.run();
    MPI_Finalize();
    if (first) std::printf("%s: ok\n", check.name);
    return 0;
  }
  std::fprintf(stderr, "usage: compat_mpi_semantics CHECK\n");
  return 2;
}
