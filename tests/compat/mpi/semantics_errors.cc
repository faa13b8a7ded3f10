// Erroneous calls, ranks that disagree, and ranks that end.
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "library.h"
#include "semantics.h"

namespace rondo::test {
namespace {

/// Erroneous calls that the MPI libraries detect too: they do not check everything that
/// MPI forbids, and some calls with negative counts crash in them. Returns the return
/// values of the calls.
std::vector<int> makeErroneousCalls(const Library& l, MPI_Comm comm) {
  std::array<int, 64> in{};
  std::array<int, 64> out{};
  const int p = sizeOf(comm);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Datatype uncommitted = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &uncommitted);
  std::vector<int> codes{
      l.Bcast(in.data(), 1, MPI_INT, p, comm),
      l.Bcast(in.data(), 1, MPI_INT, -5, comm),
      l.Bcast(in.data(), -1, MPI_INT, 0, comm),
      l.Bcast(in.data(), 1, MPI_DATATYPE_NULL, 0, comm),
      l.Bcast(in.data(), 1, uncommitted, 0, comm),
      l.Bcast(in.data(), 1, MPI_Datatype{}, 0, comm),
      l.Gather(in.data(), 1, MPI_Datatype{}, out.data(), 1, MPI_Datatype{}, 0, comm),
      l.Bcast(in.data(), 1, MPI_INT, 0, MPI_COMM_NULL),
      l.Bcast(in.data(), 1, MPI_INT, 0, MPI_Comm{}),
      l.Allreduce(in.data(), out.data(), 1, MPI_DATATYPE_NULL, MPI_SUM, comm),
      l.Allreduce(in.data(), out.data(), 1, MPI_INT, MPI_OP_NULL, comm),
      l.Allreduce(in.data(), out.data(), 1, MPI_INT, MPI_SUM, MPI_COMM_NULL),
      l.Reduce(in.data(), out.data(), 1, MPI_INT, MPI_SUM, p + 3, comm),
      l.Gather(in.data(), 1, MPI_INT, out.data(), 1, MPI_INT, p, comm),
      l.Scatter(in.data(), 1, MPI_INT, out.data(), 1, MPI_INT, -9, comm),
      l.Barrier(MPI_COMM_NULL),
      l.Iallreduce(in.data(), out.data(), 1, MPI_DATATYPE_NULL, MPI_SUM, comm, &request),
      l.Ibcast(in.data(), 1, MPI_INT, p, comm, &request),
      l.Ibcast(in.data(), 1, MPI_INT, 0, MPI_Comm{}, &request),
  };
  MPI_Type_free(&uncommitted);
  return codes;
}

int handled = 0;
int handled_code = 0;

void countErrors(MPI_Comm*, int* code, ...) {
  ++handled;
  handled_code = *code;
}

MPI_Comm duplicateThatReturnsErrors() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  return comm;
}

void requireTruncation(int code, const std::string& what) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  require(code != MPI_SUCCESS, what + " succeeded");
  require(errorClass(code) == MPI_ERR_TRUNCATE,
          what + ": class " + std::to_string(errorClass(code)) + ": " + text.data());
  require(length > 0, what + " has no text");
}

/// After a barrier the first rank ends; the others do not need it any more, and continue.
void goOnWithoutFirst(void (*end)(int)) {
  const int rank = rankIn(MPI_COMM_WORLD);
  MPI_Comm rest = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, rank, &rest);
  // The first rank may leave the barrier while the others are still in it.
  if (rank == sizeOf(MPI_COMM_WORLD) - 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) end(0);
  for (int i = 0; i < 30; ++i) {
    int one = 1;
    int sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest);
    require(sum == sizeOf(rest), "Allreduce of the ranks that go on");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::fprintf(stderr, "rank %d went on\n", rank);
  end(0);
}

[[noreturn]] void callForEver() {
  int one = 1;
  int sum = 0;
  for (;;) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

} // namespace

/// Each call returns the MPI library's own error class, and the communicator works afterwards.
void checkErrors() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const MPI_Comm comm = duplicateThatReturnsErrors();
  const std::vector<int> expected = makeErroneousCalls(original(), comm);
  const std::vector<int> got = makeErroneousCalls(called(), comm);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    require(expected[i] != MPI_SUCCESS, "erroneous call " + std::to_string(i) + " succeeded");
    require(errorClass(got[i]) == errorClass(expected[i]),
            "erroneous call " + std::to_string(i) + ": class " +
                std::to_string(errorClass(expected[i])) + " expected, got " +
                std::to_string(errorClass(got[i])));
  }
  int one = 1;
  int sum = 0;
  require(
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == sizeOf(comm),
      "Allreduce after the erroneous calls");
  MPI_Comm free_it = comm;
  MPI_Comm_free(&free_it);
}

/// Only the program's calls call an error handler, not the statistics: the handler of another
/// communicator is called only as often as the MPI library itself calls it.
void checkStatistics() {
  const MPI_Comm comm = duplicateThatReturnsErrors();
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(countErrors, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  handled = 0;
  makeErroneousCalls(original(), comm);
  const int expected = std::exchange(handled, 0);
  makeErroneousCalls(called(), comm);
  require(handled == expected, "error handlers of other communicators were called " +
                                   std::to_string(handled) + " times, expected " +
                                   std::to_string(expected));
  MPI_Errhandler_free(&handler);
  MPI_Comm free_it = comm;
  MPI_Comm_free(&free_it);
}

/// The program's own handler is called once, with the code that the call returns.
void checkHandler() {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(countErrors, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Barrier(MPI_COMM_WORLD);
  int word = 0;
  const int code = MPI_Bcast(&word, 1, MPI_INT, -7, MPI_COMM_WORLD);
  require(handled == 1, "the handler was called " + std::to_string(handled) + " times");
  require(errorClass(handled_code) == MPI_ERR_ROOT && errorClass(code) == MPI_ERR_ROOT,
          "the handler's code");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
}

/// Ranks pass different counts: each gets MPI_ERR_TRUNCATE, through the handler.
void checkTruncate() {
  if (sizeOf(MPI_COMM_WORLD) == 1) return;
  const int more = rankIn(MPI_COMM_WORLD) == 0 ? 0 : 1;
  std::array<int, 8> in{};
  std::array<int, 8> out{};

  MPI_Comm comm = duplicateThatReturnsErrors();
  requireTruncation(MPI_Allreduce(in.data(), out.data(), 4 + more, MPI_INT, MPI_SUM, comm),
                    "Allreduce of 4 and 5");
  comm = duplicateThatReturnsErrors();
  // The root of a broadcast may be done before the others receive the size.
  const int code_of_bcast = MPI_Bcast(in.data(), 4 + more, MPI_INT, 0, comm);
  if (more != 0) requireTruncation(code_of_bcast, "Bcast of 4 and 5");
  comm = duplicateThatReturnsErrors();
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Iallreduce(in.data(), out.data(), 4 + more, MPI_INT, MPI_SUM, comm, &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  requireTruncation(code, "Iallreduce of 4 and 5");

  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  requireTruncation(
      MPI_Allreduce(in.data(), out.data(), 4 + more, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
      "Allreduce of 4 and 5 on MPI_COMM_WORLD");
}

/// The same in a nonblocking call whose communicator the program frees meanwhile: the error goes to
/// the handler that the communicator had. The last rank is late, so that the others' calls are in
/// flight.
void checkFreedError() {
  const int rank = rankIn(MPI_COMM_WORLD);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(countErrors, &handler);
  for (const bool returned : {true, false}) {
    MPI_Comm comm = duplicateThatReturnsErrors();
    if (!returned) MPI_Comm_set_errhandler(comm, handler);
    if (rank == sizeOf(comm) - 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::array<int, 8> in{};
    std::array<int, 8> out{};
    MPI_Request request = MPI_REQUEST_NULL;
    int code =
        MPI_Iallreduce(in.data(), out.data(), rank == 0 ? 4 : 5, MPI_INT, MPI_SUM, comm, &request);
    MPI_Comm_free(&comm);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    requireTruncation(code, "Iallreduce of a freed communicator");
    require(handled == (returned ? 0 : 1), "the handler of a freed communicator");
  }
  MPI_Errhandler_free(&handler);
}

/// The same with the fatal handler: the job ends.
void checkFatal() {
  const int more = rankIn(MPI_COMM_WORLD) == 0 ? 0 : 1;
  std::array<int, 8> in{};
  std::array<int, 8> out{};
  MPI_Allreduce(in.data(), out.data(), 4 + more, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  std::this_thread::sleep_for(std::chrono::seconds(60));
}

/// A rank is killed in the middle of collectives: the job ends.
void checkKilled() {
  if (rankIn(MPI_COMM_WORLD) != sizeOf(MPI_COMM_WORLD) - 1) callForEver();
  int one = 1;
  int sum = 0;
  for (int i = 0; i < 1000; ++i) {
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  std::raise(SIGKILL);
}

/// A rank aborts while the others wait for it in a collective: the job ends.
void checkAbort() {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rankIn(MPI_COMM_WORLD) == sizeOf(MPI_COMM_WORLD) - 1) MPI_Abort(MPI_COMM_WORLD, 3);
  callForEver();
}

/// MPI's own finalize would wait for the first rank. The launcher must accept that no
/// rank calls it.
void checkUnfinalized() { goOnWithoutFirst(_exit); }

void checkExit() { goOnWithoutFirst(std::exit); }

} // namespace rondo::test
