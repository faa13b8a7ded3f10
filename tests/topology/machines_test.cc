// The four machines in data/ are read as they were described, and their links have the
// right classes.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/test.h"
#include "topology/hwloc_file.h"
#include "topology/link.h"
#include "topology/seats.h"

namespace rondo::test {
namespace {

using namespace topology;

Machine dataMachine(const std::string& name) {
  return readMachine(std::string(RONDO_SOURCE_DIR) + "/tests/topology/data/" + name + ".xml");
}

int device(const Machine& machine, const std::string& word) {
  const int gpu = machine.device(Kind::gpu, word);
  return gpu >= 0 ? gpu : machine.device(Kind::card, word);
}

/// Code of the link between two devices, which are given by name.
std::string between(const Machine& machine, const std::string& a, const std::string& b) {
  REQUIRE(device(machine, a) >= 0);
  REQUIRE(device(machine, b) >= 0);
  const std::string there = code(linkBetween(machine, device(machine, a), device(machine, b)));
  REQUIRE(there == code(linkBetween(machine, device(machine, b), device(machine, a))));
  return there;
}

std::string processorsLink(const Machine& machine, int a, int b) {
  return code(linkBetween(machine, Processors{a}, Processors{b}));
}

} // namespace

TEST_CASE("two sockets: hardware threads, caches, packages; a display adapter is not a GPU") {
  const Machine machine = dataMachine("two_sockets");
  CHECK(machine.name == "two-sockets");
  CHECK(summary(machine) ==
        "2 packages, 4 NUMA nodes, 32 cores, 64 processors, 256 GiB, 0 GPUs, "
        "2 network cards");
  CHECK(processorsLink(machine, 0, 32) == "core");
  CHECK(processorsLink(machine, 0, 3) == "L3");
  CHECK(processorsLink(machine, 0, 35) == "L3");
  CHECK(processorsLink(machine, 0, 4) == "sock");
  CHECK(processorsLink(machine, 15, 16) == "SYS");
  CHECK(code(linkBetween(machine, machine.processors(), Processors{1})) == "mach");
  CHECK(between(machine, "eth0", "eth1") == "SYS");
  CHECK(machine.at(device(machine, "0000:81:00.0")).name == "eth1");
  CHECK(machine.at(machine.around(Kind::numa, {24})).number == 3);
}

TEST_CASE(
    "eight GPUs with NVSwitch: each has a card below the same PCIe switch, in a separate rail") {
  const Machine machine = dataMachine("dgx");
  CHECK(machine.all(Kind::gpu).size() == 8);
  CHECK(machine.all(Kind::card).size() == 10);
  CHECK(machine.nvlinks.size() == 28);
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b) {
      const std::string gpu = "gpu" + std::to_string(a), other = "gpu" + std::to_string(b);
      const std::string card = "mlx5_" + std::to_string(b);
      CAPTURE(a, b);
      CHECK(between(machine, gpu, other) == (a == b ? "-" : "NVS18"));
      CHECK(between(machine, gpu, card) == (a == b ? "PIX" : a / 4 == b / 4 ? "sock" : "SYS"));
      CHECK(railOf(machine, device(machine, card)) == std::to_string(b));
    }
  CHECK(railOf(machine, device(machine, "mlx5_8")).empty());
  CHECK(machine.at(device(machine, "nvml3")).model == "NVIDIA H100 80GB HBM3");
  const auto seats = seatsFor(machine, {BindRule::To::core}, 8);
  std::set<Processors> cores;
  for (int rank = 0; rank < 8; ++rank) {
    const Seat& seat = seats[static_cast<std::size_t>(rank)];
    CAPTURE(rank);
    CHECK(machine.at(seat.gpu).number == rank);
    CHECK(machine.at(seat.card).name == "mlx5_" + std::to_string(rank));
    CHECK(contains(machine.at(seat.gpu).processors, seat.processors));
    cores.insert(seat.processors);
  }
  CHECK(cores.size() == 8);
}

TEST_CASE("four GPUs on PCIe: a switch, roots of one package, packages, and a bridge of NVLinks") {
  const Machine machine = dataMachine("pcie4");
  CHECK(between(machine, "gpu0", "gpu1") == "PIX");
  CHECK(between(machine, "gpu0", "gpu2") == "SYS");
  CHECK(between(machine, "gpu2", "gpu3") == "NV12");
  CHECK(between(machine, "gpu2", "mlx5_0") == "PHB");
  CHECK(between(machine, "gpu3", "mlx5_0") == "sock");
  CHECK(between(machine, "gpu0", "eth0") == "SYS"); // an alias
}

TEST_CASE("a job of four nodes: GPUs and cores inside, rails between cards of one rail") {
  const Machine machine = dataMachine("job");
  CHECK(machine.nodes == std::vector<std::string>{"n0", "n1", "n2", "n3"});
  const auto seats = seatsFor(machine, {BindRule::To::core}, 16);
  const auto linkOf = [&](std::size_t a, std::size_t b) {
    return code(linkBetween(machine, seats[a], seats[b]));
  };
  CHECK(seats[5].node == 1);
  CHECK(linkOf(0, 3) == "NV4");
  CHECK(linkOf(0, 1) == "NV4");
  CHECK(linkOf(0, 4) == "rail a");
  CHECK(linkOf(1, 12) == "rail a");
  CHECK(linkOf(2, 7) == "rail b");
  CHECK(linkOf(0, 6) == "net");
  // With more ranks than GPUs, ranks get only cores, and share the cards of their package.
  const auto many = seatsFor(machine, {BindRule::To::core}, 64);
  CHECK(many[0].gpu == -1);
  CHECK(code(linkBetween(machine, many[0], many[1])) == "L3");
  CHECK(code(linkBetween(machine, many[0], many[4])) == "sock");
  CHECK(code(linkBetween(machine, many[0], many[8])) == "SYS");
  CHECK(railOf(machine, many[8].card) == "b");
  // Uneven: the first nodes have one rank more.
  std::map<int, int> on;
  for (const Seat& seat : seatsFor(machine, {}, 6)) ++on[seat.node];
  CHECK(on == std::map<int, int>{{0, 2}, {1, 2}, {2, 1}, {3, 1}});
}

} // namespace rondo::test
