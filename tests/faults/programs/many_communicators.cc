// A rank of a job that makes hundreds of communicators with few descriptors.
//
// Arguments: UNUSED USED [SMALL]. So many communicators are split off and kept; others are used
// once for a small all-reduce; and others for many small messages of all kinds. Prints "RANK unused
// DESCRIPTORS BYTES", the total of the unused ones; then "RANK used COUNT TEXT", with the first
// error, if any; then "RANK small BYTES", the total of the last kind; then "RANK world SUM", the
// result of another call on the job's own communicator.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "faults/programs/say.h"
#include "rondo/communicator.h"
#include "support/descriptors.h"

namespace {

using rondo::test::say;

long descriptors() { return static_cast<long>(rondo::test::openDescriptors()); }

/// Of memory that several processes map, this process's part.
long residentBytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  long kilobytes = 0;
  while (file >> word && word != "Pss:") continue;
  file >> kilobytes;
  return kilobytes * 1024;
}

int sum(rondo::Communicator& comm) {
  std::int32_t value = 1;
  comm.allReduce(&value, &value, 1, rondo::DataType::int32, rondo::ReduceOp::sum);
  return value;
}

/// Messages that fit in a line of a channel, and messages that need slots.
void moveSmallMessages(rondo::Communicator& comm) {
  constexpr auto kByte = rondo::DataType::uint8;
  static std::vector<std::byte> in(4096), out(4096 * 16);
  const int next = (comm.rank() + 1) % comm.size(),
            previous = (comm.rank() + comm.size() - 1) % comm.size();
  for (int turn = 0; turn < 40; ++turn)
    for (const std::size_t bytes : {1, 8, 40, 64, 1000, 4096}) {
      comm.allReduce(in.data(), out.data(), bytes, kByte, rondo::ReduceOp::max);
      comm.allGather(in.data(), out.data(), bytes, kByte);
      comm.broadcast(in.data(), out.data(), bytes, kByte, turn % comm.size());
      comm.barrier();
      rondo::Group group;
      comm.send(in.data(), bytes, kByte, next);
      comm.recv(out.data(), bytes, kByte, previous);
      group.end();
    }
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  const int unused = std::atoi(argv[1]), used = std::atoi(argv[2]),
            small = argc == 4 ? std::atoi(argv[3]) : 0;
  auto world = rondo::Communicator::create(rondo::Rendezvous::environment());
  const std::string rank = std::to_string(world.rank());
  std::vector<rondo::Communicator> kept;
  kept.push_back(*world.split(0, 0)); // makes what exists once per process
  sum(world);                         // its channels exist from here on
  const long descriptors_before = descriptors(), bytes_before = residentBytes();
  for (int i = 0; i < unused; ++i) kept.push_back(*world.split(0, 0));
  say(rank + " unused " + std::to_string(descriptors() - descriptors_before) + " " +
      std::to_string(residentBytes() - bytes_before) + "\n");
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
  say(rank + " used " + std::to_string(done) + " " + trouble + "\n");
  if (small > 0) {
    moveSmallMessages(kept.front());
    const long before = residentBytes();
    for (int i = 0; i < small; ++i) {
      kept.push_back(*world.split(0, 0));
      moveSmallMessages(kept.back());
    }
    say(rank + " small " + std::to_string(residentBytes() - before) + "\n");
  }
  say(rank + " world " + std::to_string(sum(world)) + "\n");
}
