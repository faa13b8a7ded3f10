// One of two ranks whose folder for dumps does not answer. RONDO_DUMP names the folder, which must
// be this rank's own.
//
// The next dump's file is a pipe that no process reads. Then rank 0 aborts a second communicator.
// Both ranks use the first one for as long as a silent rank is tolerated, and print "rank N lives".
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "rondo/communicator.h"

int main() {
  auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
  auto other = comm.split(0, 0);
  ::raise(SIGQUIT); // makes the first dump
  std::string pipe;
  for (const auto& entry : std::filesystem::directory_iterator(std::getenv("RONDO_DUMP")))
    pipe = entry.path();
  const std::string first = "-1.jsonl";
  if (!pipe.ends_with(first)) return 9;
  pipe.replace(pipe.size() - first.size(), first.size(), "-2.jsonl.part");
  if (::mkfifo(pipe.c_str(), 0600) != 0) return 9;
  comm.barrier();
  if (comm.rank() == 0) other->abort("the test does");
  int status = 0;
  try {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
    for (float one = 1, more = 1; more > 0;) {
      more = comm.rank() == 0 && std::chrono::steady_clock::now() > end ? -2 : one;
      comm.allReduce(&more, &more, 1, rondo::DataType::float32, rondo::ReduceOp::sum);
      std::this_thread::sleep_for(std::chrono::milliseconds(25)); // so that the dump fits the pipe
    }
    std::printf("rank %d lives\n", comm.rank());
  } catch (const rondo::Error& error) {
    std::printf("rank %d: %s\n", comm.rank(), error.what());
    status = 3;
  }
  // The dump can be written now, before the process ends.
  if (::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC) < 0) return 9;
  return status;
}
