// Files of hwloc 1, 2 and 3 are read alike; ranks get allowed processors only.
#include <string>

#include "rondo/error.h"
#include "support/caught.h"
#include "support/paths.h"
#include "support/test.h"
#include "topology/hwloc_file.h"
#include "topology/seats.h"
#include "topology/wire.h"

namespace rondo::test {
namespace {

using namespace topology;

Machine small(int version) {
  return readMachine(std::string(RONDO_SOURCE_DIR) + "/tests/topology/data/small_" +
                     std::to_string(version) + ".xml");
}

/// A file of hwloc 1 with these objects.
Machine version1(const std::string& objects) {
  return parseMachine("<topology>\n" + objects + "</topology>\n", "f");
}

std::string object(const std::string& type, const std::string& cpuset, const std::string& inside) {
  return "<object type=\"" + type + "\" os_index=\"0\" cpuset=\"" + cpuset + "\">\n" + inside +
         "</object>\n";
}

const std::string kTwoCores =
    object("Core", "0x1", "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/>\n") +
    object("Core", "0x2", "<object type=\"PU\" os_index=\"1\" cpuset=\"0x2\"/>\n");

} // namespace

TEST_CASE("files by hwloc 1, 2 and 3 of one machine give the same Machine") {
  Machine second = small(2);
  CHECK(summary(second) ==
        "2 packages, 2 NUMA nodes, 4 cores, 8 processors (6 allowed), 32 GiB, 2 GPUs, "
        "2 network cards");
  CHECK(second.at(second.device(Kind::card, "ib1")).name == "mlx5_1");
  CHECK(second.at(second.device(Kind::gpu, "cuda1")).model == "NVIDIA H100");
  CHECK(second.source.find("hwloc 2.9.0, ") == 0);
  for (const auto& [version, writer] : {std::pair{1, "hwloc 1.11.13, "}, {3, "hwloc 3.0.0, "}}) {
    CAPTURE(version);
    Machine other = small(version);
    CHECK(other.source.find(writer) == 0);
    other.source = second.source;
    CHECK(encoded(other) == encoded(second));
  }
}

TEST_CASE("all forms of hwloc 1's machines are read") {
  const std::string package = object("Socket", "0x3", kTwoCores);
  // Uniform memory is a property of the machine.
  const Machine plain =
      version1("<object type=\"Machine\" cpuset=\"0x3\" local_memory=\"1073741824\">\n" + package +
               "</object>\n");
  CHECK(summary(plain) ==
        "1 package, 1 NUMA node, 2 cores, 2 processors, 1 GiB, 0 GPUs, 0 network cards");
  // A NUMA node may be the outermost object, and contain several packages.
  const Machine node = version1(object(
      "NUMANode", "0x3", object("Socket", "0x1", "") + object("Socket", "0x2", "") + kTwoCores));
  CHECK(node.all(Kind::package).size() == 2);
  CHECK(node.at(node.around(Kind::numa, {1})).processors == Processors{0, 1});
  CHECK(node.at(node.all(Kind::package)[0]).parent == 0);
  // Instruction caches are not second-level caches.
  const Machine caches =
      version1(object("System", "0x3",
                      "<object type=\"Cache\" depth=\"2\" cache_type=\"2\" cpuset=\"0x3\">\n" +
                          kTwoCores + "</object>\n"));
  CHECK(caches.all(Kind::cache).empty());
  CHECK(caches.all(Kind::core).size() == 2);
  const Caught several = caught([&] {
    version1("<object type=\"System\">\n" + object("Machine", "0x3", package) +
             object("Machine", "0x3", package) + "</object>\n");
  });
  CHECK(several.code == ErrorCode::invalid_argument);
  CHECK(several.text.find("f:2: a System that joins machines; valid: a file of one Machine") == 0);
}

TEST_CASE("ranks get only processors that are allowed") {
  for (const int version : {1, 2, 3})
    for (const BindRule::To to : {BindRule::To::core, BindRule::To::socket, BindRule::To::none})
      for (const int ranks : {1, 2, 3, 6, 8, 64}) {
        CAPTURE(version, static_cast<int>(to), ranks);
        for (const Seat& seat : seatsFor(small(version), {to}, ranks)) {
          CAPTURE(text(seat.processors));
          CHECK(!seat.processors.empty());
          CHECK(contains({0, 1, 2, 3, 4, 5}, seat.processors));
        }
      }
  Machine machine = small(3);
  CHECK(seatsFor(machine, {BindRule::To::core}, 2)[1].processors == Processors{4, 5});
  // A GPU without an allowed processor near it still gets its rank.
  machine.allowed = {0, 1, 3};
  const auto seats = seatsFor(machine, {BindRule::To::core}, 2);
  CHECK(machine.at(seats[1].gpu).name == "gpu1");
  CHECK(contains(machine.allowed, seats[1].processors));
  const Caught listed = caught([&] { seatsFor(machine, {BindRule::To::list, {0, 2}}, 4); });
  CHECK(listed.code == ErrorCode::invalid_argument);
  CHECK(listed.text == "ranks cannot be bound to processors 2: programs may use 0-1,3 of small");
  CHECK(seatsFor(machine, {BindRule::To::list, {0, 3}}, 2)[1].processors == Processors{3});
  CHECK(seatsFor(machine, {BindRule::To::list, {0, 2}}, 1)[0].processors == Processors{0});
}

} // namespace rondo::test
