// A rank whose calls are traced. Arguments: MODE CALLS. It makes that many all-reduces of 2 floats.
// MODE: plain; leaks (it exits without closing its communicator), forks (20 times it makes a child,
// which closes its copy and exits), spans (each call is inside a span of the program), twice (and
// as many on a second communicator).
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "rondo/communicator.h"

int main(int, char** argv) {
  const std::string mode = argv[1];
  const int calls = std::atoi(argv[2]);
  auto* comm =
      new rondo::Communicator(rondo::Communicator::create(rondo::Rendezvous::environment()));
  std::vector<float> data(2);
  for (int i = 0; i < calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    comm->allReduce(data.data(), data.data(), 2, rondo::DataType::float32, rondo::ReduceOp::sum);
    if (mode == "spans")
      comm->trace({"my lane", "iteration", begin, std::chrono::steady_clock::now(), i, 8});
    if (mode == "forks" && i % (calls / 20) == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        delete comm;
        std::exit(0);
      }
      int status = -1;
      ::waitpid(child, &status, 0);
      if (status != 0) return 5;
    }
  }
  if (mode == "twice") {
    auto second = rondo::Communicator::create(rondo::Rendezvous::environment());
    for (int i = 0; i < calls; ++i)
      second.allReduce(data.data(), data.data(), 2, rondo::DataType::float32, rondo::ReduceOp::sum);
  }
  if (mode != "leaks") delete comm;
}
