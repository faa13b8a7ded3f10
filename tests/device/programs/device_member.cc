// A rank as a process on an emulated device: runs a few calls and reports what was wrong.
//
// Argument "stay": prints "ok RANK TRANSPORT". Argument "leave": rank 1 exits without notice after
// its first calls; the others print "error RANK CODE CULPRIT". "apart": as "stay", with a device
// for each rank, which is the only one that its process sees.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "rondo/rondo.h"
#include "support/collective_case.h"
#include "support/host_devices.h"

namespace {

/// Sends to the right neighbour, receives from the left one, and sends to itself.
std::string passMessages(rondo::Communicator& comm, std::size_t count) {
  const int ranks = comm.size(), rank = comm.rank(), left = (rank + ranks - 1) % ranks;
  std::vector<std::int32_t> out(count, rank), in(count, -1), own(count, -1);
  rondo::Group group;
  for (const int to : {(rank + 1) % ranks, rank})
    comm.send(out.data(), count, rondo::DataType::int32, to);
  comm.recv(in.data(), count, rondo::DataType::int32, left);
  comm.recv(own.data(), count, rondo::DataType::int32, rank);
  group.end();
  return in == std::vector<std::int32_t>(count, left) && own == out ? "" : "wrong messages";
}

} // namespace

int main(int argc, char** argv) {
  const bool leaves = argc > 1 && std::strcmp(argv[1], "leave") == 0;
  const bool apart = argc > 1 && std::strcmp(argv[1], "apart") == 0;
  const rondo::test::HostDevices host({.first = apart ? std::atoi(std::getenv("RONDO_RANK")) : 0});
  rondo::Options options = rondo::Options::fromEnvironment();
  options.device = 0;
  auto comm = rondo::Communicator::create(rondo::Rendezvous::environment(), options);
  const int rank = comm.rank();
  try {
    for (int round = 0; round < (leaves ? 1'000'000 : 3); ++round) {
      for (rondo::Collective collective : rondo::kCollectives)
        for (std::size_t count : {std::size_t{0}, std::size_t{77}, std::size_t{50'001}}) {
          if (collective == rondo::Collective::sendrecv) continue;
          const rondo::test::CollectiveCase one{collective, count, rondo::DataType::int32};
          std::string wrong = one.run(comm);
          if (wrong.empty()) wrong = passMessages(comm, count);
          if (!wrong.empty()) {
            std::printf("rank %d: %s\n", rank, wrong.c_str());
            return 1;
          }
        }
      if (leaves && rank == 1 && round == 2) ::_exit(0);
    }
    std::printf("ok %d %s\n", rank, comm.transportTo((rank + 1) % comm.size()).c_str());
  } catch (const rondo::Error& error) {
    std::printf("error %d %s %d\n", rank, std::string(rondo::name(error.code())).c_str(),
                error.culprit());
    std::fflush(stdout);
    ::_exit(0);
  }
}
