// A rank that reduces until something fails, and then prints the error and the time.
//
// Arguments: COUNT [ODD_RANK ODD_COUNT]; the odd rank uses another count from its 200th call on.
// Or: COUNT broadcast; every rank calls broadcast from root 0 instead. Or: COUNT leave; after its
// 150th call rank 0 leaves the communicator, and then lives on. Or: COUNT fork, or COUNT clone;
// every rank has a child that outlives it. fork() makes it, as in data loaders, or clone(), which
// does not call the handlers of pthread_atfork(). With DIES=RANK:MICROSECONDS in the
// environment this rank kills itself that time after it has started. With ABORTS=RANK this rank
// calls abort() when another rank has died. Prints "ready RANK PID" after some calls, and at the
// end "error RANK NANOSECONDS CALLED CODE CULPRIT TEXT" with times of the monotonic clock.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "faults/programs/say.h"
#include "rondo/communicator.h"

namespace {

using rondo::test::now;
using rondo::test::say;

/// Lives for at most half a minute, and does not keep the rank's output open.
void haveChild(const std::string& how) {
  const long child = how == "fork" ? ::fork() : ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child != 0) return;
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  ::sleep(30);
  ::_exit(0);
}

void dieLater() {
  const char* text = std::getenv("DIES");
  if (text == nullptr || std::atoi(text) != std::atoi(std::getenv("RONDO_RANK"))) return;
  const auto delay = std::chrono::microseconds(std::atoi(std::strchr(text, ':') + 1));
  std::thread([delay] {
    std::this_thread::sleep_for(delay);
    ::raise(SIGKILL);
  }).detach();
}

std::jthread abortWhenOneDies(rondo::Communicator& comm) {
  const char* aborts = std::getenv("ABORTS");
  if (aborts == nullptr || std::atoi(aborts) != comm.rank()) return {};
  return std::jthread([&comm] {
    while (!comm.failure()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comm.abort("a rank died");
  });
}

} // namespace

int main(int argc, char** argv) {
  const std::size_t count = std::strtoull(argv[1], nullptr, 10);
  const bool broadcasts = argc == 3 && argv[2] == std::string("broadcast");
  const bool leaves = argc == 3 && argv[2] == std::string("leave");
  const std::string child = argc == 3 && !broadcasts && !leaves ? argv[2] : "";
  const int odd_rank = argc > 3 ? std::atoi(argv[2]) : -1;
  const std::size_t odd_count = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : count;
  dieLater();
  const std::string rank = std::getenv("RONDO_RANK");
  std::vector<float> data(std::max(count, odd_count));
  long long called = now();
  try {
    auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
    const std::jthread aborter = abortWhenOneDies(comm);
    for (int i = 0;; ++i) {
      if (i == 50 && !child.empty()) haveChild(child);
      if (i == 100) say("ready " + rank + " " + std::to_string(::getpid()) + "\n");
      if (i == 150 && leaves && comm.rank() == 0) {
        { const rondo::Communicator gone = std::move(comm); }
        ::sleep(60);
        return 0;
      }
      const bool odd = comm.rank() == odd_rank && i >= 200;
      called = now();
      if (broadcasts) {
        comm.broadcast(data.data(), data.data(), count, rondo::DataType::float32, 0);
        comm.barrier();
        continue;
      }
      comm.allReduce(data.data(), data.data(), odd ? odd_count : count, rondo::DataType::float32,
                     rondo::ReduceOp::max);
    }
  } catch (const rondo::Error& error) {
    say("error " + rank + " " + std::to_string(now()) + " " + std::to_string(called) + " " +
        std::string(rondo::name(error.code())) + " " + std::to_string(error.culprit()) + " " +
        error.what() + "\n");
    return 3;
  }
}
