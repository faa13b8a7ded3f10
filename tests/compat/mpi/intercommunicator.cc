// Even and odd ranks as the two groups of one intercommunicator.
#include "intercommunicator.h"

#include <vector>

#include "operation.h"

namespace rondo::test {
namespace {

struct Groups {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
  int remote_size = 0;
  bool even = false;
};

std::vector<int> number(std::size_t count, int from) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = from + static_cast<int>(i) * 3;
  return values;
}

struct Form {
  bool immediate, large;
};

/// Makes the call with both libraries; receives `count` ints.
void compare(Operation operation, std::size_t count, Form form, Progress& progress) {
  progress.begin(std::string(form.immediate ? "nonblocking call of " : "") + name(operation.what) +
                 (form.large ? ", large-count form," : "") + " on an intercommunicator");
  std::vector<int> expected = number(count, -1000);
  std::vector<int> got = expected;
  operation.receive.data = expected.data();
  call(original(), operation, nullptr);
  operation.receive.data = got.data();
  if (form.large) operation.useLargeCounts();
  int code = MPI_SUCCESS;
  if (form.immediate) {
    MPI_Request request = MPI_REQUEST_NULL;
    code = call(called(), operation, &request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    code = call(called(), operation, nullptr);
  }
  progress.end("intercommunicator", code != MPI_SUCCESS ? "failed"
                                    : got != expected   ? "other values"
                                                        : "");
}

void checkAll(const Groups& groups, Form form, Progress& progress) {
  std::vector<int> sent = number(64, groups.even ? 7 * groups.rank : -5 * groups.rank);
  Operation operation;
  operation.comm = groups.comm;
  operation.op = MPI_SUM;
  operation.send = {sent.data(), {4}, {}, MPI_INT};
  operation.receive = {nullptr, {4}, {}, MPI_INT};
  const auto others = static_cast<std::size_t>(groups.remote_size);
  for (const Collective what :
       {Collective::Allreduce, Collective::Allgather, Collective::Alltoall, Collective::Barrier}) {
    operation.what = what;
    compare(operation, 4 * others, form, progress);
  }
  // Rank 0 of the even group is the root: the other ranks of its group pass MPI_PROC_NULL.
  operation.root = !groups.even ? 0 : groups.rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
  for (const Collective what : {Collective::Reduce, Collective::Gather, Collective::Scatter}) {
    operation.what = what;
    compare(operation, 4 * others, form, progress);
  }
  operation.what = Collective::Bcast;
  compare(operation, 4, form, progress);
}

} // namespace

void checkIntercommunicator(const Communicator& world, Progress& progress) {
  if (world.size == 1) return;
  Groups groups;
  groups.even = world.rank % 2 == 0;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(world.comm, world.rank % 2, 0, &half);
  MPI_Intercomm_create(half, 0, world.comm, groups.even ? 1 : 0, 0, &groups.comm);
  MPI_Comm_rank(groups.comm, &groups.rank);
  MPI_Comm_size(groups.comm, &groups.size);
  MPI_Comm_remote_size(groups.comm, &groups.remote_size);
  for (const bool immediate : {false, true})
    for (const bool large : {false, true}) checkAll(groups, {immediate, large}, progress);

  // After the merge it is an intracommunicator like any other.
  MPI_Comm merged = MPI_COMM_NULL;
  MPI_Intercomm_merge(groups.comm, groups.even ? 0 : 1, &merged);
  int one = 1;
  int sum = 0;
  progress.begin("Allreduce on a merged intercommunicator");
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
  progress.end("intercommunicator", sum == world.size ? "" : "wrong sum");
  MPI_Comm_free(&merged);
  MPI_Comm_free(&groups.comm);
  MPI_Comm_free(&half);
}

} // namespace rondo::test
