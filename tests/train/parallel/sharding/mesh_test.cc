// Tests meshes: neighbours along axes, and texts that are refused.
#include "train/parallel/mesh.h"

#include <set>

#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {

using training::Axis;
using training::kAxes;
using training::Mesh;

namespace {

std::string refusal(const std::string& text, int ranks) {
  try {
    Mesh::parse(text, ranks);
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "it was taken";
}

const std::vector<std::pair<std::string, int>> kMeshes = {
    {"", 1},
    {"", 6},
    {"data=1", 1},
    {"shard=4", 4},
    {"data=2,shard=2", 4},
    {"pipe=3,data=2", 6},
    {"data=2,pipe=2,tensor=2", 8},
    {"tensor=2,shard=3,pipe=1,data=2", 12},
};

} // namespace

TEST_CASE("each rank of a mesh has unique coordinates, and neighbours agree on them") {
  for (const auto& [text, ranks] : kMeshes) {
    const Mesh mesh = Mesh::parse(text, ranks);
    INFO(text << " of " << ranks);
    REQUIRE(mesh.size() == ranks);
    std::set<std::vector<int>> places;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> place;
      for (Axis axis : kAxes) {
        place.push_back(mesh.coordinate(axis, rank));
        REQUIRE(place.back() >= 0);
        REQUIRE(place.back() < mesh.size(axis));
        const std::vector<int> line = mesh.groupOf({axis}, rank);
        REQUIRE(line.size() == static_cast<std::size_t>(mesh.size(axis)));
        for (std::size_t i = 0; i < line.size(); ++i) {
          REQUIRE(mesh.coordinate(axis, line[i]) == static_cast<int>(i));
          REQUIRE(mesh.groupOf({axis}, line[i]) == line);
        }
      }
      places.insert(place);
      REQUIRE(mesh.groupOf({}, rank) == std::vector<int>{rank});
      REQUIRE(mesh.groupOf({kAxes.begin(), kAxes.end()}, rank).size() ==
              static_cast<std::size_t>(ranks));
    }
    REQUIRE(places.size() == static_cast<std::size_t>(ranks));
    REQUIRE(Mesh::parse(mesh.text(), ranks).text() == mesh.text());
  }
}

TEST_CASE("the axis that is named last is the least significant") {
  const Mesh mesh = Mesh::parse("data=2,pipe=3", 6);
  CHECK(mesh.groupOf({Axis::pipe}, 4) == std::vector<int>{3, 4, 5});
  CHECK(mesh.groupOf({Axis::data}, 4) == std::vector<int>{1, 4});
  const Mesh other = Mesh::parse("pipe=3,data=2", 6);
  CHECK(other.groupOf({Axis::pipe}, 4) == std::vector<int>{0, 2, 4});
  CHECK(other.groupOf({Axis::data}, 4) == std::vector<int>{4, 5});
  CHECK(Mesh::parse("pipe=1,data=2,tensor=1", 2).text() == "data=2");
  CHECK(Mesh::parse("", 1).text() == "data=1");
}

TEST_CASE("a text that is not a mesh is refused by name") {
  const std::string axes = "; valid: data, shard, pipe, tensor";
  const auto number = [](const std::string& part) {
    return "\"" + part + "\" must be AXIS=RANKS, with 1 or more ranks";
  };
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"date=4", "unknown axis \"date\"" + axes},
      {"4", "unknown axis \"4\"" + axes},
      {"data=2,", "unknown axis \"\"" + axes},
      {"data=2,,pipe=2", "unknown axis \"\"" + axes},
      {" data=4", "unknown axis \" data\"" + axes},
      {"data", number("data")},
      {"data=", number("data=")},
      {"data=two", number("data=two")},
      {"data=0", number("data=0")},
      {"data=-4", number("data=-4")},
      {"data=4x", number("data=4x")},
      {"data=4=1", number("data=4=1")},
      {"data=99999999999", number("data=99999999999")},
      {"data=2,data=2", "axis \"data\" is named twice"},
      {"data=2,pipe=3", "its axes need 6 ranks in all, but this run has 4"},
      {"data=65536,pipe=65536", "its axes need 2147483647 ranks in all, but this run has 4"},
  };
  for (const auto& [text, what] : wrong)
    CHECK(refusal(text, 4) == "train: mesh \"" + text + "\": " + what);
}

TEST_CASE("communicators along the axes of a mesh have the neighbours in order") {
  for (const auto& [text, ranks] : kMeshes) {
    if (ranks > 8) continue;
    const Mesh mesh = Mesh::parse(text, ranks);
    auto comms = Communicator::createAll(ranks, plainOptions());
    REQUIRE(firstComplaint(onRanks(comms, [&](Communicator& comm) -> std::string {
              for (const auto& axes : std::vector<std::vector<Axis>>{
                       {Axis::data}, {Axis::shard}, {Axis::pipe}, {Axis::data, Axis::pipe}}) {
                Communicator line = mesh.split(comm, axes);
                const std::vector<int> expected = mesh.groupOf(axes, comm.rank());
                const std::int32_t own = comm.rank();
                std::vector<std::int32_t> all(static_cast<std::size_t>(line.size()));
                line.allGather(&own, all.data(), 1, DataType::int32);
                if (std::vector<int>(all.begin(), all.end()) != expected) return "other neighbours";
              }
              return "";
            })) == "");
  }
}

} // namespace rondo::test
