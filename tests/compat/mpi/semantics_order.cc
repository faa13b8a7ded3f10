// Order with respect to the program's own messages, threads, and lifetimes of communicators
// and requests.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "semantics.h"

namespace rondo::test {
namespace {

/// Far more bytes than any MPI library sends before the receiver asks for them.
constexpr int kRendezvousBytes = 4 << 20;

void userMaximum(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    static_cast<int*>(inout)[i] = std::max(static_cast<int*>(in)[i], static_cast<int*>(inout)[i]);
  }
}

void collective(int which, MPI_Comm comm) {
  int one = 1;
  int sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  switch (which) {
    case 0: MPI_Barrier(comm); break;
    case 1:
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
      require(sum == sizeOf(comm), "Allreduce during own messages");
      break;
    case 2:
      MPI_Ibarrier(comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      break;
    default:
      MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
      for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      require(sum == sizeOf(comm), "Iallreduce during own messages");
  }
}

std::ptrdiff_t descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return std::distance(begin(open), end(open));
}

void useInThread(MPI_Comm comm, int thread) {
  const int p = sizeOf(comm);
  const int rank = rankIn(comm);
  for (int i = 0; i < 200; ++i) {
    int mine = rank + i + thread;
    int sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    require(sum == p * (i + thread) + p * (p - 1) / 2, "Allreduce in a thread");
    int word = rank == i % p ? i * 10 + thread : -1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(&word, 1, MPI_INT, i % p, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    require(word == i * 10 + thread, "Ibcast in a thread");
  }
}

/// Starts nonblocking calls on a communicator, frees it, and only then completes them by `finish`.
/// The last rank is late, so that the others' calls are in flight.
void freeDuringCalls(void (*finish)(std::vector<MPI_Request>&)) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int p = sizeOf(comm);
  const int rank = rankIn(comm);
  if (rank == p - 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  constexpr int kCount = 3000;
  MPI_Datatype gaps = MPI_DATATYPE_NULL; // every other element
  MPI_Type_vector(kCount, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  const std::vector<int> mine(kCount, rank);
  std::vector<int> sum(kCount, -1), word(2 * kCount, rank),
      all(kCount * static_cast<std::size_t>(p));
  std::vector<MPI_Request> requests(4);
  MPI_Iallreduce(mine.data(), sum.data(), kCount, MPI_INT, MPI_SUM, comm, &requests[0]);
  MPI_Ibcast(word.data(), 1, gaps, p - 1, comm, &requests[1]);
  MPI_Iallgather(mine.data(), kCount, MPI_INT, all.data(), kCount, MPI_INT, comm, &requests[2]);
  MPI_Ibarrier(comm, &requests[3]);
  MPI_Type_free(&gaps);
  MPI_Comm_free(&comm);
  require(comm == MPI_COMM_NULL, "the freed communicator's handle");
  finish(requests);
  require(sum == std::vector<int>(kCount, p * (p - 1) / 2), "Iallreduce of a freed communicator");
  for (std::size_t i = 0; i + 1 < word.size(); i += 2)
    require(word[i] == p - 1 && word[i + 1] == rank, "Ibcast of a freed communicator");
  for (std::size_t i = 0; i < all.size(); ++i)
    require(all[i] == static_cast<int>(i / kCount), "Iallgather of a freed communicator");
}

void finishByWait(std::vector<MPI_Request>& requests) {
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

void finishByTest(std::vector<MPI_Request>& requests) {
  for (MPI_Request& request : requests)
    for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

} // namespace

/// The sender of a large message enters a collective before the receiver asks for the message. This
/// ends only if waiting in the collective makes progress on the message.
void checkOrdering() {
  const int rank = rankIn(MPI_COMM_WORLD);
  std::vector<char> data(kRendezvousBytes, static_cast<char>(rank));
  for (int which = 0; which < 4; ++which) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && sizeOf(MPI_COMM_WORLD) > 1) {
      MPI_Request request = MPI_REQUEST_NULL;
      std::fill(data.begin(), data.end(), static_cast<char>(which + 1));
      MPI_Isend(data.data(), kRendezvousBytes, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &request);
      collective(which, MPI_COMM_WORLD);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      if (rank == 1) {
        // Time for the sender to enter the collective.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        MPI_Recv(data.data(), kRendezvousBytes, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        require(data.front() == which + 1 && data.back() == which + 1, "the message's data");
      }
      collective(which, MPI_COMM_WORLD);
    }
  }
}

/// Programs that MPI forbids but its libraries tolerate: blocking forms and nonblocking calls are
/// in another order on rank 0 than elsewhere.
void checkApart() {
  const MPI_Comm comm = MPI_COMM_WORLD;
  int one = 1;
  int sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  const auto start = [&] { MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request); };
  if (rankIn(comm) == 0) start();
  MPI_Barrier(comm);
  if (rankIn(comm) != 0) start();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  require(sum == sizeOf(comm), "Iallreduce before a Barrier on one rank, after it on others");
}

/// Collectives that are passed on, between others that are taken over, on one communicator.
void checkBetween() {
  const int rank = rankIn(MPI_COMM_WORLD);
  const int p = sizeOf(MPI_COMM_WORLD);
  MPI_Op own = MPI_OP_NULL;
  MPI_Op_create(userMaximum, 1, &own);
  for (int i = 0; i < 50; ++i) {
    int mine = rank + i;
    int result = -1;
    int falling = i - rank;
    MPI_Scan(&falling, &result, 1, MPI_INT, own, MPI_COMM_WORLD);
    require(result == i, "Scan with an operator of our own");
    MPI_Allreduce(&mine, &result, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    require(result == p * (p - 1) / 2 + i * p, "Allreduce after Scan");
    MPI_Allreduce(&mine, &result, 1, MPI_INT, own, MPI_COMM_WORLD);
    require(result == p - 1 + i, "Allreduce with an operator of our own");
    int word = rank == 0 ? i : -1;
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    require(word == i, "Bcast after it");
    MPI_Request requests[2];
    int later = -1;
    MPI_Iallreduce(&mine, &later, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &requests[0]);
    MPI_Iexscan(&falling, &result, 1, MPI_INT, own, MPI_COMM_WORLD, &requests[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    require(later == i, "Iallreduce across a Barrier");
    require(rank == 0 || result == i, "Iexscan across a Barrier");
  }
  MPI_Op_free(&own);
}

void checkThreads() {
  int provided = 0;
  MPI_Query_thread(&provided);
  require(provided == MPI_THREAD_MULTIPLE, "this MPI library has no MPI_THREAD_MULTIPLE");
  std::vector<MPI_Comm> comms(3);
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back(useInThread, comms[static_cast<std::size_t>(i)], i);
  }
  for (std::thread& thread : threads) thread.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

/// MPI_Finalize directly after nonblocking calls whose end only Test has reported; a communicator
/// still exists.
void checkFinalize() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Barrier(comm);
  std::vector<int> in(5000, 1);
  std::vector<int> out(5000);
  MPI_Request requests[2];
  MPI_Iallreduce(in.data(), out.data(), 5000, MPI_INT, MPI_SUM, comm, &requests[0]);
  MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
  for (MPI_Request& request : requests) {
    for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
  require(out.back() == sizeOf(comm), "Iallreduce before Finalize");
}

/// Rank 1 alone does not make a nonblocking call. The others do, and call MPI_Finalize.
void checkUnmatched() {
  static int in = 1, out = 0; // in use until MPI_Finalize
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rankIn(MPI_COMM_WORLD) == 1) return;
  MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
}

/// Threads ask for the state of one request at the same time.
void checkGetStatus() {
  constexpr int kCount = 20000;
  const bool first = rankIn(MPI_COMM_WORLD) == 0;
  MPI_Datatype gaps = MPI_DATATYPE_NULL; // every other element
  MPI_Type_vector(kCount, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  std::vector<int> word(2 * kCount);
  for (int i = 0; i < 300; ++i) {
    std::fill(word.begin(), word.end(), first ? i : -1);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(word.data(), 1, gaps, 0, MPI_COMM_WORLD, &request);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([request] {
        for (int done = 0; done == 0;) MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t k = 0; k < word.size(); k += 2) require(word[k] == i, "Ibcast");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&gaps);
}

/// A communicator that is freed does not end its calls in flight.
void checkFreed() {
  freeDuringCalls(finishByWait);
  freeDuringCalls(finishByTest);
}

/// MPI waits for a rank that is stopped, whichever it is, much longer than Rondo's heartbeats.
void checkStopped() {
  for (const int victim : {0, sizeOf(MPI_COMM_WORLD) - 1}) {
    int one = 1;
    int sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rankIn(MPI_COMM_WORLD) == victim) {
      const std::string wake = "(sleep 5; kill -CONT " + std::to_string(::getpid()) + ") &";
      require(std::system(wake.c_str()) == 0, "a process that wakes this one");
      std::raise(SIGSTOP);
    }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    require(sum == sizeOf(MPI_COMM_WORLD), "Allreduce with a rank that was stopped");
  }
}

void checkDescriptors() {
  std::ptrdiff_t before = 0;
  for (int i = 0; i < 200; ++i) {
    MPI_Comm comm = MPI_COMM_NULL;
    if (i % 2 == 0) {
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    } else {
      MPI_Comm_split(MPI_COMM_WORLD, 0, -i, &comm);
    }
    int one = 1;
    int sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    require(sum == sizeOf(MPI_COMM_WORLD), "Allreduce on a communicator that lives shortly");
    MPI_Comm_free(&comm);
    if (i == 20) before = descriptors();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const std::ptrdiff_t after = descriptors();
  // The MPI library, and a connection that is being closed, may hold a few more.
  require(after < before + 20, std::to_string(before) + " descriptors became " +
                                   std::to_string(after) + " in 180 communicators");
}

} // namespace rondo::test
