// A rank of a job that makes communicators by the hundred where descriptors are few.
//
// Arguments: UNUSED USED; so many communicators are split off and kept, and others used once for a
// small all-reduce. Prints "RANK unused DESCRIPTORS BYTES", what the unused ones took together;
// then "RANK used COUNT TEXT", with the error that came first, if any; then "RANK world SUM", the
// result of another call of the job's own communicator.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rondo/communicator.h"

namespace {

/// One write per line, so that lines of several ranks do not mix.
void say(const std::string& line) {
  if (::write(STDOUT_FILENO, (line + "\n").data(), line.size() + 1) < 0) std::_Exit(9);
}

long descriptors() {
  long count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

long residentBytes() {
  std::ifstream file("/proc/self/statm");
  long all = 0, resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int sum(rondo::Communicator& comm) {
  std::int32_t value = 1;
  comm.allReduce(&value, &value, 1, rondo::DataType::int32, rondo::ReduceOp::sum);
  return value;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int unused = std::atoi(argv[1]), used = std::atoi(argv[2]);
  auto world = rondo::Communicator::create(rondo::Rendezvous::environment());
  const std::string rank = std::to_string(world.rank());
  std::vector<rondo::Communicator> kept;
  kept.push_back(*world.split(0, 0)); // what is made once for the process
  sum(world);                         // its channels exist from here on
  const long descriptors_before = descriptors(), bytes_before = residentBytes();
  for (int i = 0; i < unused; ++i) kept.push_back(*world.split(0, 0));
  say(rank + " unused " + std::to_string(descriptors() - descriptors_before) + " " +
      std::to_string(residentBytes() - bytes_before));
  int done = 0;
  std::string trouble = "-";
  try {
    for (; done < used; ++done) {
      kept.push_back(*world.split(0, 0));
      sum(kept.back());
    }
  } catch (const rondo::Error& error) {
    trouble = std::string(rondo::name(error.code())) + " " + error.what();
  }
  say(rank + " used " + std::to_string(done) + " " + trouble);
  say(rank + " world " + std::to_string(sum(world)));
}
