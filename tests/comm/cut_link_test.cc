// Tests a link between two ranks that is dead, loses one direction or is reset, while both still
// have the control plane.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "support/caught.h"
#include "support/cut_links.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Breaks the data channel between the last two of `size` ranks, which meet over sockets, in the
/// middle of large messages. Returns the errors of all ranks. `harm` gets the channel's two ends.
std::vector<Caught> endsAfter(int size, const std::function<void(const std::vector<int>&)>& harm) {
  Options options = plainOptions("tcp");
  options.heartbeat = std::chrono::seconds(1);
  std::vector<Communicator> ranks = ranksOverSockets(size, options);
  const std::vector<int> control_plane = openDescriptorNumbers();
  const auto send = [size](Communicator& comm, std::vector<float>& data) {
    if (comm.rank() == size - 2) comm.send(data.data(), data.size(), DataType::float32, size - 1);
    if (comm.rank() == size - 1) comm.recv(data.data(), data.size(), DataType::float32, size - 2);
  };
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            std::vector<float> one(1);
            send(comm, one);
            return {};
          })) == "");
  const std::vector<int> ends = links(control_plane);
  REQUIRE(ends.size() == 2); // of the only channel
  harm(ends);
  std::vector<Caught> errors(ranks.size());
  onRanks(ranks, [&](Communicator& comm) -> std::string {
    errors[static_cast<std::size_t>(comm.rank())] = caught([&] {
      std::vector<float> much(1 << 20);
      if (comm.rank() < size - 2) comm.barrier();
      for (;;) send(comm, much);
    });
    return {};
  });
  return errors;
}

/// The same. The hub gives a rank that another one lost 300 ms to answer. On a busy machine it may
/// answer later and count as unresponsive, so that is tried again.
std::vector<Caught> endsInTime(int size, const std::function<void(const std::vector<int>&)>& harm) {
  std::vector<Caught> errors = endsAfter(size, harm);
  const auto late = [](const Caught& error) { return error.code == ErrorCode::unresponsive; };
  for (int more = 0; more < 2 && std::ranges::any_of(errors, late); ++more)
    errors = endsAfter(size, harm);
  return errors;
}

/// All ranks got the same error, which names both ranks.
void namesLink(const std::vector<Caught>& errors) {
  const int size = static_cast<int>(errors.size());
  const std::string link = "the connection between rank " + std::to_string(size - 2) +
                           " and rank " + std::to_string(size - 1) +
                           " broke, though both are alive";
  for (const Caught& error : errors) {
    CHECK(says(error, ErrorCode::transport, {link.c_str(), "channel "}));
    CHECK((error.culprit == size - 2 || error.culprit == size - 1));
    CHECK(error.text == errors[0].text);
    CHECK(error.culprit == errors[0].culprit);
  }
}

} // namespace

TEST_CASE("a dead link between two ranks: all ranks get the same error, which names it") {
  for (const int size : {2, 3, 4, 5}) {
    INFO(size << " ranks");
    namesLink(endsInTime(size, [](const std::vector<int>& ends) {
      for (const int fd : ends) REQUIRE(cutLink(fd));
    }));
  }
}

// Proves: the end that still receives does not keep the other one waiting.
TEST_CASE("a link that loses one direction: all ranks get the same error, which names it") {
  for (const int size : kWholeGrid ? std::vector<int>{2, 3, 5} : std::vector<int>{3})
    for (const std::size_t deaf : {0u, 1u}) {
      INFO(size << " ranks, end " << deaf);
      namesLink(
          endsInTime(size, [&](const std::vector<int>& ends) { REQUIRE(cutLink(ends[deaf])); }));
    }
}

TEST_CASE("a link that is reset: all ranks get the same error, which names it") {
  for (const int size : {2, 3, 4, 5})
    for (const std::size_t end : {0u, 1u}) {
      INFO(size << " ranks, end " << end);
      namesLink(
          endsInTime(size, [&](const std::vector<int>& ends) { REQUIRE(resetLink(ends[end])); }));
    }
}

} // namespace rondo::test
