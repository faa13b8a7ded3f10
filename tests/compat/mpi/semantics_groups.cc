// Communicators of all kinds: which of them are taken over, and from which call on.
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "semantics.h"

namespace rondo::test {
namespace {

constexpr int kChildren = 2;

void wait(MPI_Request& request) { MPI_Wait(&request, MPI_STATUS_IGNORE); }

/// Makes only nonblocking calls, then frees the communicator.
void useByImmediate(MPI_Comm comm, const std::string& what) {
  if (comm == MPI_COMM_NULL) return;
  const int p = sizeOf(comm);
  const int mine = rankIn(comm);
  MPI_Request request = MPI_REQUEST_NULL;
  int sum = -1;
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
  wait(request);
  require(sum == p * (p - 1) / 2, "Iallreduce on " + what);
  std::vector<int> all(static_cast<std::size_t>(p), -1);
  MPI_Iallgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, comm, &request);
  wait(request);
  for (int r = 0; r < p; ++r)
    require(all[static_cast<std::size_t>(r)] == r, "Iallgather on " + what);
  MPI_Ibarrier(comm, &request);
  wait(request);
  if (comm != MPI_COMM_WORLD && comm != MPI_COMM_SELF) MPI_Comm_free(&comm);
}

void useGraphs() {
  const int p = sizeOf(MPI_COMM_WORLD);
  const int rank = rankIn(MPI_COMM_WORLD);
  MPI_Comm made = MPI_COMM_NULL;
  const std::array sizes{p, 1};
  const std::array periods{1, 1};
  MPI_Comm cart = MPI_COMM_NULL;
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes.data(), periods.data(), 0, &cart);
  const std::array remain{1, 0};
  MPI_Cart_sub(cart, remain.data(), &made);
  useByImmediate(made, "Cart_sub's");
  useByImmediate(cart, "Cart_create's");
  // The only neighbour of each rank is the next rank.
  std::vector<int> index, edges;
  for (int r = 0; r < p; ++r) {
    index.push_back(r + 1);
    edges.push_back((r + 1) % p);
  }
  MPI_Graph_create(MPI_COMM_WORLD, p, index.data(), edges.data(), 0, &made);
  useByImmediate(made, "Graph_create's");
  const int one = 1;
  const int next = (rank + 1) % p;
  const int last = (rank + p - 1) % p;
#ifndef OPEN_MPI // hangs at times in 4.1.4, with and without the interposer
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &next, &one, MPI_INFO_NULL, 0, &made);
  useByImmediate(made, "Dist_graph_create's");
#endif
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, &one, 1, &next, &one, MPI_INFO_NULL, 0,
                                 &made);
  useByImmediate(made, "Dist_graph_create_adjacent's");
}

void useMerged() {
  const int rank = rankIn(MPI_COMM_WORLD);
  if (sizeOf(MPI_COMM_WORLD) == 1) return;
  MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL, merged = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 1 : 0, 0, &inter);
  MPI_Intercomm_merge(inter, rank % 2, &merged);
  useByImmediate(merged, "Intercomm_merge's");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

/// What parents and children do in the same way on their common communicator.
void useTogether(MPI_Comm merged) {
  const int p = sizeOf(merged);
  const int rank = rankIn(merged);
  for (int i = 0; i < 20; ++i) {
    const int mine = rank + i;
    int sum = -1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, merged);
    require(sum == p * (p - 1) / 2 + p * i, "Allreduce with children");
    int word = rank == p - 1 ? i : -1;
    MPI_Bcast(&word, 1, MPI_INT, p - 1, merged);
    require(word == i, "Bcast by a child");
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_MAX, merged, &request);
    wait(request);
    require(sum == p - 1 + i, "Iallreduce with children");
  }
  // A part of it that has only the processes of one side.
  MPI_Comm side = MPI_COMM_NULL;
  MPI_Comm_split(merged, rank < p - kChildren ? 0 : 1, rank, &side);
  int one = 1;
  int sum = -1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, side);
  require(sum == sizeOf(MPI_COMM_WORLD), "Allreduce on one side of a merged communicator");
  MPI_Comm_free(&side);
}

void requireSum(MPI_Comm comm, int expected, const std::string& what) {
  const int one = 1;
  int sum = -1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  require(sum == expected, what);
}

int uses_while_freed = 0;

int useWhileFreed(MPI_Comm comm, int, void*, void*) {
  requireSum(comm, sizeOf(comm), "Allreduce in a delete callback");
  MPI_Barrier(comm);
  ++uses_while_freed;
  return MPI_SUCCESS;
}

} // namespace

/// Communicators without any blocking collective: their nonblocking calls are taken over, as the
/// statistics show.
void checkImmediate() {
  useByImmediate(MPI_COMM_WORLD, "MPI_COMM_WORLD");
  useByImmediate(MPI_COMM_SELF, "MPI_COMM_SELF");
  const int rank = rankIn(MPI_COMM_WORLD);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  useByImmediate(made, "Comm_dup's");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &made);
  useByImmediate(made, "Comm_dup_with_info's");
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2 == 0 ? 0 : MPI_UNDEFINED, -rank, &made);
  useByImmediate(made, "Comm_split's");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made);
  useByImmediate(made, "Comm_split_type's");
  MPI_Group everyone = MPI_GROUP_NULL, first = MPI_GROUP_NULL;
  const int zero = 0;
  MPI_Comm_group(MPI_COMM_WORLD, &everyone);
  MPI_Group_incl(everyone, 1, &zero, &first);
  MPI_Comm_create(MPI_COMM_WORLD, everyone, &made);
  useByImmediate(made, "Comm_create's");
  MPI_Comm_create(MPI_COMM_WORLD, first, &made);
  useByImmediate(made, "Comm_create's");
  MPI_Comm_create_group(MPI_COMM_WORLD, everyone, 3, &made);
  useByImmediate(made, "Comm_create_group's");
  MPI_Group_free(&first);
  MPI_Group_free(&everyone);
  useGraphs();
  useMerged();
}

/// MPI_Comm_idup does not synchronise ranks, so the new communicator's nonblocking calls are taken
/// over only after a blocking collective. A rank that waits for the communicator does not wait for
/// other ranks' waits.
void checkIdup() {
  const int rank = rankIn(MPI_COMM_WORLD);
  const int p = sizeOf(MPI_COMM_WORLD);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  int token = 0;
  // One after the other.
  if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  wait(request);
  if (rank + 1 < p) MPI_Send(&token, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
  int one = 1;
  int sum = 0;
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made, &request);
  wait(request);
  require(sum == p, "Iallreduce on Comm_idup's");
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made);
  require(sum == p, "Allreduce on Comm_idup's");
  useByImmediate(made, "Comm_idup's");
}

/// Processes of another MPI_COMM_WORLD, with the interposer or without: communicators with
/// processes of both worlds are left to the MPI library on both sides.
void checkSpawned() {
  const char* const preloaded = std::getenv("LD_PRELOAD");
  for (const bool with : {false, true}) {
    std::string preload = std::string("LD_PRELOAD=") + (with && preloaded ? preloaded : "");
    std::string program = programPath(), check = "child";
    std::array<char*, 4> arguments{preload.data(), program.data(), check.data(), nullptr};
    std::string command = "/usr/bin/env";
    MPI_Comm children = MPI_COMM_NULL, merged = MPI_COMM_NULL;
    MPI_Comm_spawn(command.data(), arguments.data(), kChildren, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &children, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(children, 0, &merged);
    useTogether(merged);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&children);
  }
}

/// The spawned side of it.
void checkChild() {
  MPI_Comm parents = MPI_COMM_NULL, merged = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parents);
  require(parents != MPI_COMM_NULL, "a child without parents");
  MPI_Intercomm_merge(parents, 1, &merged);
  useTogether(merged);
  MPI_Comm_free(&merged);
  MPI_Comm_disconnect(&parents);
}

/// An attribute's delete callback makes collectives on the communicator that is being freed. Later
/// communicators, which may get its handle, have groups of their own.
void checkCallback() {
  const int rank = rankIn(MPI_COMM_WORLD);
  const int p = sizeOf(MPI_COMM_WORLD);
  MPI_Comm half = MPI_COMM_NULL, first = MPI_COMM_NULL, whole = MPI_COMM_NULL;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &half);
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, useWhileFreed, &key, nullptr);
  MPI_Comm_set_attr(first, key, nullptr);
  for (int i = 0; i < 20; ++i) {
    MPI_Comm_dup(first, &whole);
    requireSum(whole, p, "Allreduce on a duplicate");
    uses_while_freed = 0;
    MPI_Comm_free(&whole);
    require(uses_while_freed == 1, "the delete callback was not called once");
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(half, &made, &request);
    wait(request);
    requireSum(made, sizeOf(half), "Allreduce after a delete callback");
    MPI_Comm_free(&made);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &made);
    int word = rankIn(made) == 0 ? rank : -1;
    MPI_Bcast(&word, 1, MPI_INT, 0, made);
    require(word == p - 1, "Bcast after a delete callback");
    MPI_Comm_free(&made);
  }
  MPI_Comm_free(&first);
  MPI_Comm_free(&half);
  // Also within MPI_Finalize.
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  MPI_Comm_free_keyval(&key);
}

/// More communicators than there are descriptors for, all of them in use: those that Rondo cannot
/// open are left to the MPI library, on all ranks.
void checkMany() {
  constexpr std::size_t kComms = 300;
  std::vector<MPI_Comm> comms(kComms, MPI_COMM_NULL);
  for (int pass = 0; pass < 2; ++pass)
    for (MPI_Comm& comm : comms) {
      if (pass == 0) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      int one = 1;
      int sum = 0;
      int later = 0;
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Iallreduce(&one, &later, 1, MPI_INT, MPI_SUM, comm, &request);
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
      wait(request);
      require(sum == sizeOf(comm) && later == sum, "Allreduce on one of many communicators");
    }
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

} // namespace rondo::test
