// Rank 0 splits off and ends in an orderly way; the others reduce until something fails, then print
// the error and the time.
//
// Prints "ready RANK PID" when rank 0 has ended, and at the end "error RANK NANOSECONDS CALLED CODE
// CULPRIT TEXT". RANK is the one after the split.
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "faults/programs/say.h"
#include "rondo/communicator.h"

namespace {

using rondo::test::now;
using rondo::test::say;

} // namespace

int main() {
  auto world = rondo::Communicator::create(rondo::Rendezvous::environment());
  const bool leaves = world.rank() == 0;
  int host = static_cast<int>(::getpid());
  world.broadcast(&host, &host, 1, rondo::DataType::int32, 0);
  auto comm = world.split(leaves ? rondo::Communicator::kNoColor : 0, 0);
  if (!comm) return 0;
  const std::string rank = std::to_string(comm->rank());
  std::vector<float> data(3000);
  long long called = 0;
  int ended = 0;
  try {
    for (;;) {
      // All ranks see it in the same call, because each rank's observation is added up.
      if (ended == 0) {
        int look = ::kill(host, 0) != 0 ? 1 : 0;
        comm->allReduce(&look, &look, 1, rondo::DataType::int32, rondo::ReduceOp::max);
        ended = look;
        if (ended != 0) say("ready " + rank + " " + std::to_string(::getpid()) + "\n");
      }
      called = now();
      comm->allReduce(data.data(), data.data(), data.size(), rondo::DataType::float32,
                      rondo::ReduceOp::max);
    }
  } catch (const rondo::Error& error) {
    say("error " + rank + " " + std::to_string(now()) + " " + std::to_string(called) + " " +
        std::string(rondo::name(error.code())) + " " + std::to_string(error.culprit()) + " " +
        error.what() + "\n");
    return 3;
  }
}
