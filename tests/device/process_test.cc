// Ranks as processes that share the memory of their devices.
#include "support/paths.h"
#include "support/ranks.h"
#include "support/test.h"
#include "tools/shell.h"

namespace rondo::test {
namespace {

Outcome members(int ranks, const std::string& transport, const std::string& how) {
  return shell("RONDO_TRANSPORT=" + transport +
               " RONDO_TIMEOUT=30 RONDO_HEARTBEAT=10 $RONDO run -p " + std::to_string(ranks) +
               " -- " RONDO_TEST_PROGRAMS "/program_device_member " + how);
}

} // namespace

// Proves: a channel between processes is the same memory at both ends, by handles sent over sockets
// (nvlink) and by a memory file (pcie), or it goes over TCP.
TEST_CASE("device buffers: ranks that are processes give the right results") {
  for (const std::string transport : {"nvlink", "pcie", "tcp"})
    for (int ranks : kWholeGrid ? std::vector<int>{2, 3} : std::vector<int>{3}) {
      const auto outcome = members(ranks, transport, "stay");
      INFO(outcome.out << outcome.err);
      REQUIRE(outcome.status == 0);
      for (int rank = 0; rank < ranks; ++rank)
        CHECK(outcome.out.find("ok " + std::to_string(rank) + " " + transport) !=
              std::string::npos);
    }
}

// Proves: if a launcher shows each process only one device, the processes still test the links to
// the others' devices, and use the links that work.
TEST_CASE("device buffers: processes that see one device each use each other's") {
  const auto outcome = members(2, "nvlink,pcie", "apart");
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  for (int rank : {0, 1})
    CHECK(outcome.out.find("ok " + std::to_string(rank) + " nvlink") != std::string::npos);
}

// Proves: if a process dies, the launches that wait for it end, with its rank as the culprit.
TEST_CASE("device buffers: a process that dies is named on the other ranks") {
  for (const std::string transport : {"nvlink", "tcp"}) {
    const auto outcome = members(3, transport, "leave");
    INFO(transport << ": " << outcome.out << outcome.err);
    for (int rank : {0, 2})
      CHECK(outcome.out.find("error " + std::to_string(rank) + " peer_dead 1") !=
            std::string::npos);
  }
}

} // namespace rondo::test
