// Tests a link between two ranks that is dead, while both still have the control plane.
#include <future>
#include <vector>

#include "support/caught.h"
#include "support/cut_links.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {

TEST_CASE("a dead link between two ranks that do not host: all ranks get the same error") {
  Options options = plainOptions("tcp");
  options.heartbeat = std::chrono::seconds(1);
  const UniqueId id = UniqueId::create(options);
  std::vector<std::future<Communicator>> coming;
  for (int rank = 0; rank < 3; ++rank)
    coming.push_back(Communicator::createAsync(Rendezvous::uniqueId(id, rank, 3), options));
  std::vector<Communicator> ranks;
  for (auto& one : coming) ranks.push_back(one.get());
  const std::vector<int> control_plane = openDescriptorNumbers();
  const auto send = [](Communicator& comm, std::vector<float>& data) {
    if (comm.rank() == 1) comm.send(data.data(), data.size(), DataType::float32, 2);
    if (comm.rank() == 2) comm.recv(data.data(), data.size(), DataType::float32, 1);
  };
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            std::vector<float> one(1);
            send(comm, one);
            return {};
          })) == "");
  REQUIRE(cutLinks(control_plane) == 2); // both ends of the only channel
  std::vector<Caught> ends(3);
  onRanks(ranks, [&](Communicator& comm) -> std::string {
    ends[static_cast<std::size_t>(comm.rank())] = caught([&] {
      std::vector<float> much(1 << 20);
      if (comm.rank() == 0) comm.barrier();
      for (;;) send(comm, much);
    });
    return {};
  });
  for (const Caught& end : ends) {
    CHECK(says(end, ErrorCode::transport,
               {"the connection between rank 1 and rank 2 broke, though both are alive",
                "channel 1 -> 2"}));
    CHECK((end.culprit == 1 || end.culprit == 2));
    CHECK(end.text == ends[0].text);
    CHECK(end.culprit == ends[0].culprit);
  }
}

} // namespace rondo::test
