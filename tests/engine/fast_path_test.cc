// The fast path: which plans have one, and what their steps do while a peer is late.
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "engine/bound_plan.h"
#include "engine/fast_path.h"
#include "engine/step.h"
#include "plan/registry.h"
#include "support/test.h"
#include "tests/engine/slots.h"
#include "transports/slot_ring.h"
#include "transports/tuning.h"

namespace rondo::test {
namespace {

/// Memory for the ring of one direction.
class Memory {
 public:
  Memory() : data_(transport::SlotRing::bytesNeeded(2, kSlot)) {
    std::memset(data_.data(), 0, data_.size());
  }
  /// One end of the ring.
  std::unique_ptr<transport::SlotRing> end() {
    return std::make_unique<transport::SlotRing>(data_.data(), 2, kSlot, nullptr);
  }

 private:
  static constexpr std::size_t kSlot = 64 << 10;
  base::AlignedBuffer data_;
};

/// A rank of two with a bound plan, whose rings are open.
class Rank {
 public:
  Rank(Collective collective, const char* algorithm, int rank, std::size_t count,
       std::array<Memory, 2>& memory, const engine::StepRunner::Settings& settings = {})
      : out_(memory[static_cast<std::size_t>(rank)].end()),
        in_(memory[static_cast<std::size_t>(1 - rank)].end()) {
    std::vector<std::unique_ptr<transport::Transport>> transports;
    transports.push_back(std::make_unique<Slots>());
    std::vector<engine::Fabric::Peer> peers(2);
    peers[static_cast<std::size_t>(1 - rank)].transport = transports[0].get();
    fabric_.emplace(rank, 1, std::move(transports), std::move(peers), 128 << 10, false);
    const plan::RankPlan plan = plan::findAlgorithm(algorithm)->build({collective, 2, 0, 0}, rank);
    plan_ = engine::bind(plan, {count, DataType::int32}, *fabric_);
    for (engine::End* end : plan_.ends) end->ring = end->sends ? out_.get() : in_.get();
    plan_.reuse_bytes = transport::kReuseBytes;
    engine::StepRunner(*fabric_, settings).classify(plan_);
  }

  const engine::BoundPlan& plan() const { return plan_; }
  /// Runs the steps from `at` on. Returns the first that is not done.
  std::size_t run(const void* input, void* output, std::size_t at = 0) {
    engine::Run run;
    run.plan = &plan_;
    run.input = static_cast<const std::byte*>(input);
    run.output = static_cast<std::byte*>(output);
    run.signature = 7;
    engine::runFastPath(run, at, plan_.fast_path.size(), 0);
    return at;
  }

 private:
  std::unique_ptr<transport::SlotRing> out_, in_;
  std::optional<engine::Fabric> fabric_;
  engine::BoundPlan plan_;
};

bool hasFastPath(Collective collective, const char* algorithm, std::size_t count,
                 const engine::StepRunner::Settings& settings = {}) {
  std::array<Memory, 2> memory;
  return !Rank(collective, algorithm, 0, count, memory, settings).plan().fast_path.empty();
}

// Proves: the usual algorithms of small calls have a fast path.
TEST_CASE("small calls of two ranks run without queues", "[fast_path]") {
  for (const std::size_t count : {1u, 2u, 256u}) {
    CHECK(hasFastPath(Collective::allreduce, "oneshot", count));
    CHECK(hasFastPath(Collective::broadcast, "tree", count));
    CHECK(hasFastPath(Collective::gather, "linear", count));
    CHECK(hasFastPath(Collective::scatter, "linear", count));
    CHECK(hasFastPath(Collective::allgather, "direct", count));
  }
}

// Proves: plans whose steps need more than a copy or a reduction are left to the queues.
TEST_CASE("large calls, checksums and thread teams have no fast path", "[fast_path]") {
  CHECK(!hasFastPath(Collective::broadcast, "tree", engine::kFastPathBytes / 4));
  CHECK(!hasFastPath(Collective::broadcast, "tree", 2, {.checksum = true}));
  CHECK(!hasFastPath(Collective::allreduce, "oneshot", 2, {.threads = 2}));
}

// Proves: an exchange sends early. A root has nothing to wait for, so it gains nothing by that.
TEST_CASE("only plans that send and then wait send before they are recorded", "[fast_path]") {
  std::array<Memory, 2> memory;
  const Rank rank(Collective::allreduce, "oneshot", 0, 2, memory);
  CHECK(rank.plan().fast_sends == std::size_t{1});
  // A larger message may find no memory for its slot.
  const Rank larger(Collective::allreduce, "oneshot", 0, 256, memory);
  CHECK(larger.plan().fast_sends == std::size_t{0});
  const Rank root(Collective::broadcast, "tree", 0, 2, memory);
  CHECK(root.plan().fast_sends == std::size_t{0});
}

// Proves: no step is done twice or left out if the peer is late, with each kind of message.
TEST_CASE("a run of the fast path that had to wait goes on with the same step", "[fast_path]") {
  for (const std::size_t count : {1u, 2u, 10u, 500u}) {
    std::array<Memory, 2> memory;
    Rank first(Collective::allreduce, "oneshot", 0, count, memory);
    Rank second(Collective::allreduce, "oneshot", 1, count, memory);
    for (int call = 0; call < 5; ++call) {
      const std::vector<std::int32_t> ones(count, 1 + call), tens(count, 10);
      std::vector<std::int32_t> result(count), other(count);
      const std::size_t at = first.run(ones.data(), result.data());
      CHECK(at == std::size_t{1});
      CHECK(result == std::vector<std::int32_t>(count, 0));
      CHECK(second.run(tens.data(), other.data()) == std::size_t{2});
      CHECK(first.run(ones.data(), result.data(), at) == std::size_t{2});
      CHECK(result == std::vector<std::int32_t>(count, 11 + call));
      CHECK(other == result);
    }
  }
}

// Proves: messages of each kind arrive, in order.
TEST_CASE("a broadcast on the fast path moves its data, also if the root is ahead", "[fast_path]") {
  for (const std::size_t count : {1u, 2u, 10u, 500u}) {
    std::array<Memory, 2> memory;
    Rank root(Collective::broadcast, "tree", 0, count, memory);
    Rank other(Collective::broadcast, "tree", 1, count, memory);
    std::vector<std::int32_t> result(count);
    CHECK(other.run(nullptr, result.data()) == std::size_t{0}); // nothing has arrived
    // The root may be some calls ahead.
    for (int call = 1; call < 4; ++call) {
      const std::vector<std::int32_t> data(count, call);
      std::vector<std::int32_t> own(count);
      CHECK(root.run(data.data(), own.data()) == std::size_t{1});
      CHECK(own == data);
    }
    for (int call = 1; call < 4; ++call) {
      CHECK(other.run(nullptr, result.data()) == std::size_t{1});
      CHECK(result == std::vector<std::int32_t>(count, call));
    }
  }
}

} // namespace
} // namespace rondo::test
