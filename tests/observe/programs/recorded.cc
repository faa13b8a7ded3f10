// A rank that makes calls until it does something wrong.
//
// Arguments: FAULT ODD_RANK [PAUSE]. All ranks make 100 all-reduces of 1000 floats. The odd rank's
// next call is wrong, as FAULT says: skip (it makes no call, and computes for a minute), count,
// type, op (another one), root (a broadcast from another root), call (a barrier), stop (it stops
// itself), kill (it kills itself), kill_busy (so, while rank 1 computes), kill_pairs (so, while
// ranks 0 and 1, and 2 and 3, have a communicator besides), end (all ranks end), leave (it closes
// the communicator), unsent (no rank sends the message for which rank 0 waits), child (it forks a
// child that lives for a minute), straggler (all ranks compute and make all-reduces, the odd one
// needs three times as long), none (all ranks make calls of all kinds until they are killed). After
// the 100 all-reduces each rank prints "ready RANK PID" and waits for PAUSE seconds (which may be a
// fraction), or, for at most five minutes, until the file PAUSE exists. A rank that gets an error
// prints "error RANK CODE", and its text to standard error.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "faults/programs/say.h"
#include "rondo/communicator.h"

namespace {

using rondo::Communicator;
using rondo::DataType;
using rondo::ReduceOp;
using rondo::test::say;

void compute() { ::sleep(60); }

/// Waits for so many seconds, or until the file exists.
void waitFor(const char* what) {
  const double seconds = std::atof(what);
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  for (int i = 0; seconds <= 0 && i < 30'000 && ::access(what, F_OK) != 0; ++i) ::usleep(10'000);
}

void call(Communicator& comm, const std::string& fault, bool odd) {
  std::vector<double> data(1000);
  // The call fails soon after one rank makes a different call in its place. So the others make
  // theirs first.
  const bool differs =
      fault == "count" || fault == "type" || fault == "op" || fault == "root" || fault == "call";
  if (odd && differs) ::usleep(300'000);
  if (fault == "root")
    return comm.broadcast(data.data(), data.data(), 1000, DataType::float32, odd ? 1 : 0);
  if (fault == "unsent") {
    if (odd) return compute();
    if (comm.rank() == 0) comm.recv(data.data(), 10, DataType::float32, comm.size() - 1);
    return compute();
  }
  if (odd && fault == "skip") return compute();
  if (fault == "kill_busy" && comm.rank() == 1) return compute();
  if (odd && fault == "stop") ::raise(SIGSTOP);
  if (odd && fault.starts_with("kill")) ::raise(SIGKILL);
  if (odd && fault == "call") return comm.barrier();
  comm.allReduce(data.data(), data.data(), odd && fault == "count" ? 999 : 1000,
                 odd && fault == "type" ? DataType::int32 : DataType::float32,
                 odd && fault == "op" ? ReduceOp::max : ReduceOp::sum);
}

void stepFor(Communicator& comm, int milliseconds) {
  std::vector<float> data(1000);
  while (true) {
    ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
    comm.allReduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum);
  }
}

/// Calls of all kinds and sizes, with pauses that differ between ranks.
void mixed(Communicator& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  constexpr std::size_t kMost = 100'000;
  std::vector<float> one(kMost), all(kMost * ranks);
  std::mt19937 same(1), own(static_cast<unsigned>(comm.rank()));
  for (std::uint64_t i = 0;; ++i) {
    const std::size_t count = same() % 3 == 0 ? same() % kMost : same() % 100;
    const int root = static_cast<int>(same() % ranks);
    const int next = (comm.rank() + 1) % comm.size();
    switch (same() % 8) {
      case 0:
        comm.allReduce(one.data(), one.data(), count, DataType::float32, ReduceOp::sum);
        break;
      case 1: comm.broadcast(one.data(), one.data(), count, DataType::float32, root); break;
      case 2: comm.allGather(one.data(), all.data(), count, DataType::float32); break;
      case 3:
        comm.reduce(one.data(), one.data(), count, DataType::float32, ReduceOp::max, root);
        break;
      case 4:
        comm.reduceScatter(all.data(), one.data(), count, DataType::float32, ReduceOp::sum);
        break;
      case 5: comm.barrier(); break;
      case 6:
        if (comm.rank() % 2 == 0 && next != 0)
          comm.send(one.data(), count, DataType::float32, next);
        else if (comm.rank() % 2 == 1)
          comm.recv(one.data(), count, DataType::float32, comm.rank() - 1);
        break;
      case 7:
        comm.allReduceAsync(one.data(), all.data(), count, DataType::float32, ReduceOp::sum).wait();
        break;
    }
    if (own() % 50 == 0) ::usleep(own() % 20'000);
  }
}

} // namespace

int main(int argc, char** argv) {
  const std::string fault = argv[1];
  auto comm = Communicator::create(rondo::Rendezvous::environment());
  const std::string rank = std::to_string(comm.rank());
  const bool odd = comm.rank() == std::atoi(argv[2]);
  std::vector<float> data(1000);
  std::optional<Communicator> pair;
  try {
    if (fault == "kill_pairs") pair = comm.split(comm.rank() / 2, 0);
    for (int i = 0; i < 100; ++i)
      comm.allReduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum);
    pid_t process = ::getpid();
    if (fault == "child" && odd) {
      process = ::fork();
      if (process == 0) compute(), ::_exit(0);
    }
    say("ready " + rank + " " + std::to_string(process) + "\n");
    if (argc > 3) waitFor(argv[3]);
    if (fault == "child") compute();
    if (fault == "straggler") stepFor(comm, odd ? 60 : 20);
    if (fault == "none") mixed(comm);
    if (fault == "end") return 0;
    if (odd && fault == "leave") {
      { const Communicator closed = std::move(comm); }
      compute();
    }
    call(comm, fault, odd);
    compute();
  } catch (const rondo::Error& error) {
    const std::string code(rondo::name(error.code()));
    say("error " + rank + " " + code + "\n");
    std::fprintf(stderr, "%s: %s\n", code.c_str(), error.what());
    if (pair) compute(); // until both communicators have failed
    return 3;
  }
}
