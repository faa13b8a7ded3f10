// Tests the order of splits and exchanges, and what a turn that never ends does.
#include <chrono>
#include <future>
#include <optional>

#include "bootstrap/local_group.h"
#include "comm/communicator_impl.h"
#include "comm/control_turns.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace comm;
using namespace std::chrono_literals;

// Proves: a turn waits for each of the earlier ones, and each of them may take the whole time.
TEST_CASE("a turn comes when all earlier ones have ended") {
  ControlTurns turns;
  const std::uint64_t first = turns.take(), second = turns.take(), third = turns.take();
  turns.await(first, 0ms);
  std::optional<ErrorCode> code;
  try {
    turns.await(third, 1ms);
  } catch (const Error& error) {
    code = error.code();
  }
  CHECK(code == ErrorCode::timeout);
  auto waits = std::async(std::launch::async, [&] { turns.await(third, 60s); });
  turns.end();
  turns.await(second, 0ms);
  turns.end();
  waits.get();
}

// Proves: after a failure no turn waits for one that may never end.
TEST_CASE("turns do not wait any more when the communicator has failed") {
  ControlTurns turns;
  turns.take(); // never ends
  const std::uint64_t second = turns.take();
  auto waits = std::async(std::launch::async, [&] { turns.await(second, 60s); });
  turns.stop();
  REQUIRE(waits.wait_for(20s) == std::future_status::ready);
  waits.get();
  turns.await(turns.take(), 0ms);
}

// Proves: ranks whose turns no longer fit each other's do not go on: all of them hear of it.
TEST_CASE("a turn that waits in vain fails the communicator on all ranks") {
  Options options = plainOptions("inproc");
  options.init_timeout = 700ms;
  bootstrap::LocalGroup group(2);
  const auto open = [&](int rank) {
    return std::shared_ptr<CommunicatorImpl>(
        CommunicatorImpl::open(group.open(rank, options), options, {}));
  };
  auto opens = std::async(std::launch::async, open, 1);
  const auto own = open(0), other = opens.get();
  own->nextTurn(); // never ends
  std::string text;
  try {
    own->exchange({}, own->nextTurn());
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK(text.find("an earlier split(), exchange() or grow()") != std::string::npos);
  for (const auto& impl : {own, other}) {
    const auto failure = impl->failure();
    REQUIRE(failure);
    CHECK(failure->code() == ErrorCode::timeout);
    CHECK(failure->culprit() == 0);
  }
}

} // namespace
} // namespace rondo::test
