// Slots and loans: bodies that the producer lends, revokes and withdraws, as the consumer sees
// them. Longer than 500 lines, because all cases use the same two ends.
#include "transports/slot_ring.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace transport;

constexpr std::size_t kSlot = 1024;

/// Lends by pointer and counts calls of find().
class Pointers final : public Loans {
 public:
  std::optional<Loan> offer(const void* data, std::size_t, Use) override {
    return Loan{{reinterpret_cast<std::uintptr_t>(data)}};
  }
  const std::byte* find(const Loan& loan, std::size_t) override {
    ++found;
    return reinterpret_cast<const std::byte*>(loan.words[0]);
  }
  int found = 0;
};

/// Both ends on one piece of memory.
struct Ends {
  explicit Ends(int depth)
      : memory(SlotRing::bytesNeeded(depth, kSlot)),
        producer((std::memset(memory.data(), 0, memory.size()), memory.data()), depth, kSlot, {}),
        consumer(memory.data(), depth, kSlot, {}) {}
  base::AlignedBuffer memory;
  SlotRing producer, consumer;
  Pointers loans;
};

std::array<std::byte, kSlot> filled(int value) {
  std::array<std::byte, kSlot> data;
  data.fill(static_cast<std::byte>(value));
  return data;
}

} // namespace

TEST_CASE("a lent body is read in place, and returned by the release", "[loans]") {
  for (const int depth : {1, 3}) {
    Ends ends(depth);
    for (int i = 0; i < 7; ++i) {
      const auto data = filled(i);
      REQUIRE(ends.producer.writable(kSlot));
      const auto number =
          ends.producer.lend({5, kSlot}, *ends.loans.offer(data.data(), kSlot, Use::keep));
      REQUIRE(ends.consumer.readable()->bytes == kSlot);
      CHECK(ends.consumer.readBody(kSlot, &ends.loans) == data.data());
      CHECK_FALSE(ends.producer.returned(number));
      CHECK_FALSE(ends.producer.revoke(number, data.data(), kSlot)); // it is being read
      CHECK_FALSE(ends.producer.withdraw(number));
      ends.consumer.release();
      CHECK(ends.producer.returned(number));
    }
  }
}

TEST_CASE("a revoked body is read from the slot, also after the memory was reused", "[loans]") {
  Ends ends(2);
  for (int i = 0; i < 5; ++i) {
    auto data = filled(i);
    const auto number =
        ends.producer.lend({5, kSlot}, *ends.loans.offer(data.data(), kSlot, Use::keep));
    REQUIRE(ends.producer.revoke(number, data.data(), kSlot));
    data.fill(std::byte{0xff});
    const std::byte* body = ends.consumer.readBody(kSlot, &ends.loans);
    const auto due = filled(i);
    CHECK(std::memcmp(body, due.data(), kSlot) == 0);
    ends.consumer.release();
    // A copied message of any size after it is not taken for a loan.
    for (const std::size_t bytes : {std::size_t{8}, kSlot}) {
      std::memset(ends.producer.writeBody(bytes), 0x11, bytes);
      ends.producer.publish({6, bytes});
      REQUIRE(ends.consumer.readable());
      CHECK(ends.consumer.readBody(bytes, &ends.loans)[0] == std::byte{0x11});
      ends.consumer.release();
      REQUIRE(ends.producer.writable(kSlot));
    }
  }
  CHECK(ends.loans.found == 0);
}

// Proves: after a failure of the consumer, the producer need not wait for a body that the consumer
// has taken and does not release.
TEST_CASE("after a failure a body that was taken is given back", "[loans]") {
  Ends ends(2);
  const auto data = filled(3);
  const auto number = ends.producer.lend({1, kSlot}, *ends.loans.offer(data.data(), kSlot, {}));
  REQUIRE(ends.consumer.readable());
  REQUIRE(ends.consumer.readBody(kSlot, &ends.loans) == data.data());
  CHECK_FALSE(ends.producer.withdraw(number));
  CHECK(ends.consumer.giveAllBack());
  CHECK(ends.producer.withdraw(number));
}

TEST_CASE("a body that was given back can be read again, revoked or withdrawn", "[loans]") {
  Ends ends(1);
  const auto data = filled(3);
  const auto number =
      ends.producer.lend({5, kSlot}, *ends.loans.offer(data.data(), kSlot, Use::keep));
  CHECK(ends.consumer.readBody(kSlot, &ends.loans) == data.data());
  ends.consumer.giveBack();
  CHECK(ends.consumer.readBody(kSlot, &ends.loans) == data.data());
  ends.consumer.giveBack();
  CHECK(ends.producer.withdraw(number));
  CHECK(ends.consumer.readBody(kSlot, &ends.loans) == nullptr);
}

TEST_CASE("every body arrives whole if the producer revokes while the consumer reads", "[loans]") {
  Ends ends(4);
  constexpr int kMessages = 20000;
  std::thread consumer([&] {
    for (int i = 0; i < kMessages; ++i) {
      while (!ends.consumer.readable()) std::this_thread::yield();
      const std::byte* body = ends.consumer.readBody(kSlot, &ends.loans);
      const auto due = static_cast<std::byte>(i);
      if (body[0] != due || body[kSlot - 1] != due) std::abort();
      ends.consumer.release();
    }
  });
  auto data = filled(0);
  for (int i = 0; i < kMessages; ++i) {
    while (!ends.producer.writable(kSlot)) std::this_thread::yield();
    data.fill(static_cast<std::byte>(i));
    const auto number =
        ends.producer.lend({5, kSlot}, *ends.loans.offer(data.data(), kSlot, Use::keep));
    // The memory is overwritten next: either the consumer has read it, or it gets the copy.
    while (!ends.producer.returned(number) && !ends.producer.revoke(number, data.data(), kSlot))
      std::this_thread::yield();
  }
  consumer.join();
}

namespace {

/// Lends by pointer to a consumer that cannot map the memory.
class Unmapped final : public Loans {
 public:
  std::optional<Loan> offer(const void* data, std::size_t, Use) override {
    return Loan{{reinterpret_cast<std::uintptr_t>(data)}};
  }
  const std::byte* find(const Loan&, std::size_t) override { return nullptr; }
};

/// Both ends of a channel whose bodies have several parts.
struct SharedEnds {
  static constexpr std::size_t kBytes = 5 * kSharePart + 17;
  base::AlignedBuffer memory{SlotRing::bytesNeeded(2, kBytes)};
  SlotRing producer{(std::memset(memory.data(), 0, memory.size()), memory.data()), 2, kBytes, {}};
  SlotRing consumer{memory.data(), 2, kBytes, {}};
  Unmapped loans;
  std::vector<std::byte> from{kBytes}, to{kBytes};

  std::uint64_t lend() {
    return producer.lend({5, kBytes}, *loans.offer(from.data(), kBytes, Use::one_way));
  }
  /// Takes the message and shares its body. False if there is none.
  bool take() {
    if (!consumer.readable() || consumer.readBody(kBytes, &loans) != nullptr) return false;
    const Loan* loan = consumer.unmapped();
    if (!loan || loan->words[0] != reinterpret_cast<std::uintptr_t>(from.data())) return false;
    consumer.share(to.data());
    return true;
  }
  void copy(const SlotRing::Part& part) {
    if (part.to != reinterpret_cast<std::uintptr_t>(to.data() + part.offset)) std::abort();
    std::memcpy(to.data() + part.offset, from.data() + part.offset, part.bytes);
  }
};

} // namespace

// Proves: each byte of a shared body is copied by exactly one end, and a part that the producer
// could not copy makes the whole body count as not copied.
TEST_CASE("the parts of a shared body cover it once, whoever takes them", "[loans]") {
  using Parts = SlotRing::Parts;
  for (int pattern = 0; pattern < 64; ++pattern) { // bit i: the producer takes the i-th part
    SharedEnds ends;
    for (std::size_t i = 0; i < ends.kBytes; ++i) ends.from[i] = static_cast<std::byte>(i * 7 + 1);
    const auto number = ends.lend();
    CHECK_FALSE(ends.producer.takePart(number, ends.kBytes)); // it is not shared yet
    REQUIRE(ends.take());
    CHECK(ends.producer.beingRead(number));
    CHECK_FALSE(ends.producer.revoke(number, ends.from.data(), ends.kBytes));
    CHECK_FALSE(ends.producer.withdraw(number));
    std::size_t covered = 0;
    bool failed = false;
    for (int i = 0; i < 6; ++i) {
      const bool produces = pattern >> i & 1;
      const auto part = produces ? ends.producer.takePart(number, ends.kBytes)
                                 : ends.consumer.nextPart(ends.kBytes);
      REQUIRE(part);
      covered += part->bytes;
      ends.copy(*part);
      if (!produces) continue;
      CHECK(ends.consumer.parts() == Parts::pending);
      const bool copied = pattern != 42 || i > 1;
      failed |= !copied;
      ends.producer.finishPart(number, copied);
      CHECK(ends.consumer.parts() == (failed ? Parts::failed : Parts::copied));
    }
    CHECK(covered == ends.kBytes);
    CHECK_FALSE(ends.producer.takePart(number, ends.kBytes));
    CHECK_FALSE(ends.consumer.nextPart(ends.kBytes));
    CHECK(ends.to == ends.from);
    ends.consumer.release();
    CHECK(ends.producer.returned(number));
    CHECK_FALSE(ends.producer.takePart(number, ends.kBytes));
  }
}

// Proves: the producer may reuse the memory as soon as it has copied all parts itself, although the
// consumer has not released the message. If the consumer took a part, or a part could not be
// copied, the producer must wait for the release.
TEST_CASE("a shared body that the producer has copied whole is returned", "[loans]") {
  enum class Parts { producers, consumers, failed };
  for (const Parts parts : {Parts::producers, Parts::consumers, Parts::failed}) {
    SharedEnds ends;
    const auto number = ends.lend();
    REQUIRE(ends.take());
    if (parts == Parts::consumers) REQUIRE(ends.consumer.nextPart(ends.kBytes));
    while (const auto part = ends.producer.takePart(number, ends.kBytes)) {
      CHECK_FALSE(ends.producer.returned(number));
      ends.copy(*part);
      ends.producer.finishPart(number, parts != Parts::failed);
    }
    CHECK(ends.producer.returned(number) == (parts == Parts::producers));
    ends.consumer.release();
    CHECK(ends.producer.returned(number));
  }
}

// Proves: if the consumer could not copy a part, parts() returns failed.
TEST_CASE("a shared body of which the consumer cannot copy a part counts as not copied",
          "[loans]") {
  SharedEnds ends;
  ends.lend();
  REQUIRE(ends.take());
  while (ends.consumer.nextPart(ends.kBytes)) continue;
  CHECK(ends.consumer.parts() == SlotRing::Parts::copied);
  ends.consumer.failPart();
  CHECK(ends.consumer.parts() == SlotRing::Parts::failed);
}

// Proves: the consumer of a message that was withdrawn does not read the memory of the loan.
TEST_CASE("after withdraw() the consumer finds no loan", "[loans]") {
  SharedEnds ends;
  const auto number = ends.lend();
  REQUIRE(ends.consumer.readable());
  REQUIRE(ends.producer.withdraw(number));
  CHECK(ends.consumer.readBody(ends.kBytes, &ends.loans) == nullptr);
  CHECK(ends.consumer.unmapped() == nullptr);
}

// Proves: if the producer gives up waiting for a consumer that has begun to read, the consumer does
// not take what it has read for the message.
TEST_CASE("a body that the producer abandons is not complete", "[loans]") {
  for (const bool shares : {false, true}) {
    SharedEnds ends;
    const auto number = ends.lend();
    REQUIRE(ends.consumer.readable());
    REQUIRE(ends.consumer.readBody(ends.kBytes, &ends.loans) == nullptr);
    REQUIRE(ends.consumer.unmapped() != nullptr);
    if (shares) {
      ends.consumer.share(ends.to.data());
      while (ends.consumer.nextPart(ends.kBytes)) continue;
      REQUIRE(ends.consumer.parts() == SlotRing::Parts::copied);
    }
    ends.producer.abandon(number);
    CHECK(ends.consumer.unmapped() == nullptr);
    CHECK(ends.consumer.sharedTo() == nullptr);
    CHECK(ends.consumer.parts() == SlotRing::Parts::pending);
    CHECK_FALSE(ends.consumer.nextPart(ends.kBytes));
  }
}

// Proves: if the consumer refuses a body, the producer notices it. The consumer then reads the
// producer's copy in the slot; after a failure it gets no message.
TEST_CASE("a refused body is read from the slot, or withdrawn", "[loans]") {
  for (const bool copied : {true, false}) {
    SharedEnds ends;
    std::fill(ends.from.begin(), ends.from.end(), std::byte{7});
    const auto number = ends.lend();
    REQUIRE(ends.take());
    while (ends.consumer.nextPart(ends.kBytes)) continue;
    ends.consumer.refuse();
    CHECK(ends.producer.refused(number));
    CHECK(ends.consumer.readBody(ends.kBytes, &ends.loans) == nullptr); // not in the slot yet
    CHECK(ends.consumer.unmapped() == nullptr);
    if (!copied) {
      CHECK(ends.producer.withdraw(number));
      continue;
    }
    REQUIRE(ends.producer.revoke(number, ends.from.data(), ends.kBytes));
    CHECK_FALSE(ends.producer.refused(number));
    const std::byte* body = ends.consumer.readBody(ends.kBytes, &ends.loans);
    REQUIRE(body);
    CHECK(std::memcmp(body, ends.from.data(), ends.kBytes) == 0);
    ends.consumer.release();
    CHECK(ends.producer.returned(number));
  }
}

// Proves: shareLater() shares a message only if it has arrived and `may` accepts its loan. After a
// failure, a message is not given back while the producer is still copying a part of it.
TEST_CASE("later messages are shared early, and given back after a failure", "[loans]") {
  SharedEnds ends;
  std::vector<std::byte> next(ends.kBytes);
  const auto any = [](const Loan&) { return true; };
  const auto none = [](const Loan&) { return false; };
  ends.lend();
  REQUIRE(ends.take());
  ends.consumer.shareLater(1, next.data(), any); // it has not arrived
  const auto second = ends.lend();
  CHECK_FALSE(ends.producer.takePart(second, ends.kBytes));
  ends.consumer.shareLater(1, next.data(), none);
  CHECK_FALSE(ends.producer.takePart(second, ends.kBytes));
  ends.consumer.shareLater(1, next.data(), any);
  const auto part = ends.producer.takePart(second, ends.kBytes);
  REQUIRE(part);
  CHECK(part->to == reinterpret_cast<std::uintptr_t>(next.data() + part->offset));
  CHECK_FALSE(ends.consumer.giveAllBack()); // the part is not finished
  ends.producer.finishPart(second, true);
  CHECK(ends.consumer.giveAllBack());
  CHECK(ends.producer.withdraw(second));
}

// Proves (with the thread sanitizer): each end sees what the other has copied, once it is finished.
TEST_CASE("two threads share the copying of every body", "[loans]") {
  SharedEnds ends;
  constexpr int kMessages = kOnlyOrders ? 200 : 2000;
  std::thread consumer([&] {
    for (int i = 0; i < kMessages; ++i) {
      while (!ends.take()) std::this_thread::yield();
      while (const auto part = ends.consumer.nextPart(ends.kBytes)) ends.copy(*part);
      while (ends.consumer.parts() == SlotRing::Parts::pending) std::this_thread::yield();
      // `from` may have the next body already: it is the producer's again once it has copied the
      // last part.
      const auto right = [&](std::byte b) { return b == static_cast<std::byte>(i); };
      if (!std::all_of(ends.to.begin(), ends.to.end(), right)) std::abort();
      ends.consumer.release();
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    std::fill(ends.from.begin(), ends.from.end(), static_cast<std::byte>(i));
    const auto number = ends.lend();
    while (!ends.producer.returned(number))
      if (const auto part = ends.producer.takePart(number, ends.kBytes)) {
        ends.copy(*part);
        ends.producer.finishPart(number, true);
      } else {
        std::this_thread::yield();
      }
  }
  consumer.join();
}

namespace {

/// A full ring becomes writable after a while, see writable().
bool becomesWritable(SlotRing& producer, std::size_t bytes) {
  for (const base::Deadline limit(std::chrono::seconds(20)); !limit.passed();)
    if (producer.writable(bytes)) return true;
  return false;
}

} // namespace

TEST_CASE("small messages run ahead of the slots, large ones do not", "[ring]") {
  for (const int depth : {1, 3, 8}) {
    Ends ends(depth);
    int large = 0, all = 0;
    for (; ends.producer.writable(kSlot); ++large, ++all) {
      std::memset(ends.producer.writeBody(kSlot), large, kSlot);
      ends.producer.publish({1, kSlot});
    }
    CHECK(large == depth);
    for (; ends.producer.writable(8); ++all) {
      std::memset(ends.producer.writeBody(8), all, 8);
      ends.producer.publish({1, 8});
    }
    CHECK(all == large + 2 * (depth * static_cast<int>(kLinesPerSlot) - large));
    for (int i = 0; i < all; ++i) {
      const std::size_t bytes = i < large ? kSlot : 8;
      REQUIRE(ends.consumer.readable()->bytes == bytes);
      CHECK(ends.consumer.readBody(bytes)[bytes - 1] == static_cast<std::byte>(i));
      ends.consumer.release();
      CHECK(becomesWritable(ends.producer, 8));
      CHECK(ends.producer.writable(kSlot));
    }
    CHECK_FALSE(ends.consumer.readable());
  }
}

// Proves: a producer that has filled the ring waits until room for many messages is free, and a
// slow consumer does not hold it up until then.
TEST_CASE("a full ring is written again when a quarter is free, or after a while", "[ring]") {
  const auto full = [](Ends& ends) {
    int messages = 0;
    for (; ends.producer.writable(8); ++messages) ends.producer.publish({1, 8});
    return messages;
  };
  const auto consume = [](Ends& ends, int messages) {
    for (int i = 0; i < messages; ++i) {
      REQUIRE(ends.consumer.readable());
      ends.consumer.release();
    }
  };
  Ends ends(8);
  const int all = full(ends);
  bool waited = false; // not each time, since this thread may lose its processor meanwhile
  for (int i = 0; i < 100 && !waited; ++i) {
    consume(ends, 2);
    waited = !ends.producer.writable(8);
    CHECK(becomesWritable(ends.producer, 8));
    CHECK(full(ends) == 2);
  }
  CHECK(waited);
  consume(ends, all / 4);
  CHECK(ends.producer.writable(8));
  CHECK(full(ends) == all / 4);
}

// Proves: bodies that share slots stay whole until they are consumed, also if larger ones come
// between them, and a producer that runs ahead always has room for `depth` messages of any size.
TEST_CASE("small bodies share a slot, and leave room for `depth` large ones", "[ring]") {
  constexpr std::size_t kLarge = std::size_t{128} << 10;
  constexpr int kDepth = 8;
  base::AlignedBuffer memory(SlotRing::bytesNeeded(kDepth, kLarge));
  std::memset(memory.data(), 0, memory.size());
  SlotRing producer(memory.data(), kDepth, kLarge, {}), consumer(memory.data(), kDepth, kLarge, {});
  std::mt19937_64 random(7);
  std::vector<std::size_t> sent; // not consumed yet
  std::size_t written = 0, read = 0, most = 0;
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < 100; ++i) {
      const std::size_t bytes = random() % 4 ? 41 + random() % 4000 : kLarge - random() % 4000;
      if (!producer.writable(bytes)) {
        REQUIRE(sent.size() - read >= kDepth);
        break;
      }
      std::memset(producer.writeBody(bytes), static_cast<int>(written++), bytes);
      producer.publish({1, bytes});
      sent.push_back(bytes);
    }
    most = std::max(most, sent.size() - read);
    for (std::size_t n = 1 + random() % (sent.size() - read); n > 0; --n, ++read) {
      REQUIRE(consumer.readable()->bytes == sent[read]);
      const std::byte* const body = consumer.readBody(sent[read]);
      const auto whole = [&](std::byte one) { return one == static_cast<std::byte>(read); };
      REQUIRE(std::all_of(body, body + sent[read], whole));
      consumer.release();
    }
  }
  CHECK(most > kDepth); // they did share
}

// Proves: a producer whose consumer keeps up writes to all of its share of kReuseBytes in turn, and
// to no more, so that it does not write the lines that the consumer has just read.
TEST_CASE("bodies use their share of the caches in turn", "[ring]") {
  constexpr std::size_t kLarge = std::size_t{128} << 10;
  constexpr int kDepth = 8;
  base::AlignedBuffer memory(SlotRing::bytesNeeded(kDepth, kLarge));
  const auto places = [&](std::size_t bytes, std::size_t share, bool early = false) {
    std::memset(memory.data(), 0, memory.size());
    SlotRing producer(memory.data(), kDepth, kLarge, {}),
        consumer(memory.data(), kDepth, kLarge, {});
    producer.shareReuse(share);
    producer.leaveGaps(false);
    std::set<const std::byte*> all;
    for (std::size_t i = 0; i < 3 * kLargeReuseTimes * share / bytes; ++i) {
      REQUIRE(producer.writable(bytes));
      std::byte* const body = early ? producer.publishEarly({1, bytes}) : producer.writeBody(bytes);
      all.insert(body);
      std::memset(body, static_cast<int>(i), bytes);
      if (early) {
        producer.wrote(bytes, bytes);
      } else {
        producer.publish({1, bytes});
      }
      REQUIRE(consumer.readable());
      CHECK(consumer.readBody(bytes) == body);
      consumer.release();
    }
    for (auto one = all.begin(), next = std::next(one); next != all.end(); ++one, ++next)
      CHECK(*next - *one >= static_cast<std::ptrdiff_t>(bytes)); // no two overlap
    return all.size();
  };
  CHECK(places(16 << 10, kReuseBytes) == 16);
  CHECK(places(16 << 10, kReuseBytes / 2) == 8);
  CHECK(places(5 << 10, kReuseBytes) == 48);
  CHECK(places(4 << 10, kReuseBytes) == 48); // three quarters
  // Large bodies use four times as much, and never share a slot.
  CHECK(places(kLarge, kReuseBytes) == 8);
  CHECK(places(kLarge, kReuseBytes / 2) == 4);
  CHECK(places(kLarge, kReuseBytes / 8) == 2); // at least two slots
  CHECK(places(kLargeBodyBytes, kReuseBytes / 2) == 8);
  CHECK(places(kLarge, kReuseBytes, true) == 2); // published early
  CHECK(places(kLargeBodyBytes - 64, kReuseBytes / 2) == 2);
  CHECK(places(1 << 10, kReuseBytes) == 192);
}

// Proves: the lines after a body are not those of the next one while the consumer keeps up, and are
// if messages wait. So what the processor fetches ahead is not what the producer is just writing.
TEST_CASE("bodies have gaps only if the consumer keeps up", "[ring]") {
  constexpr std::size_t kLarge = std::size_t{128} << 10;
  base::AlignedBuffer memory(SlotRing::bytesNeeded(8, kLarge));
  const auto distances = [&](std::size_t bytes, bool late) {
    std::memset(memory.data(), 0, memory.size());
    SlotRing producer(memory.data(), 8, kLarge, {}), consumer(memory.data(), 8, kLarge, {});
    producer.leaveGaps(true);
    std::set<std::ptrdiff_t> found;
    const std::byte* before = nullptr;
    for (int i = 0; i < 150; ++i) {
      REQUIRE(producer.writable(bytes));
      const std::byte* const body = producer.writeBody(bytes);
      // Within a slot. The first slot of a late consumer was begun before it was late.
      if (before && body > before && body - before < 4096 && i > 70) found.insert(body - before);
      before = body;
      producer.publish({1, bytes});
      if (late) continue;
      REQUIRE(consumer.readable());
      consumer.release();
    }
    return found;
  };
  using Distances = std::set<std::ptrdiff_t>;
  const auto gap = static_cast<std::ptrdiff_t>(kGapBytes);
  CHECK(distances(1024, false) == Distances{1024 + gap});
  CHECK(distances(1000, false) == Distances{1024 + gap});
  CHECK(distances(1024, true) == Distances{1024});
  CHECK(distances(kGapFrom - 64, false) == Distances{kGapFrom - 64});
  CHECK(distances(kGapTo + 64, false) == Distances{kGapTo + 64});
}

TEST_CASE("a consumer takes lines by one byte in each line of its own body", "[ring]") {
  constexpr std::size_t kBytes = 200; // four lines, the last one not full
  const auto data = filled(7);
  for (const bool takes : {false, true}) {
    Ends ends(2);
    ends.consumer.takeLines(takes);
    for (int i = 0; i < 2; ++i) {
      REQUIRE(ends.producer.writable(kBytes));
      std::memcpy(ends.producer.writeBody(kBytes), data.data(), kBytes);
      ends.producer.publish({5, kBytes});
    }
    REQUIRE(ends.consumer.readable());
    const std::byte* const first = ends.consumer.readBody(kBytes);
    ends.consumer.release();
    for (std::size_t at = 0; at < kBytes; ++at)
      CHECK(first[at] == (takes && at % 64 == 0 ? std::byte{0} : data[at]));
    REQUIRE(ends.consumer.readable());
    CHECK(std::memcmp(ends.consumer.readBody(kBytes), data.data(), kBytes) == 0);
    ends.consumer.release();

    // The limit of release().
    for (const std::size_t below : {kBytes, kBytes + 1}) {
      REQUIRE(ends.producer.writable(kBytes));
      std::byte* const limited = ends.producer.writeBody(kBytes);
      std::memcpy(limited, data.data(), kBytes);
      ends.producer.publish({5, kBytes});
      REQUIRE(ends.consumer.readable());
      ends.consumer.release(below);
      CHECK(limited[64] == (takes && kBytes < below ? std::byte{0} : data[64]));
    }

    // Memory that is only lent does not change.
    const auto lent = ends.producer.lend({5, kSlot}, *ends.loans.offer(data.data(), kSlot, {}));
    REQUIRE(ends.consumer.readable());
    CHECK(ends.consumer.readBody(kSlot, &ends.loans) == data.data());
    ends.consumer.release();
    CHECK(ends.producer.returned(lent));
    CHECK(data == filled(7));
  }
}

TEST_CASE("every body arrives whole while the consumer takes lines", "[ring]") {
  Ends ends(2);
  ends.consumer.takeLines(true);
  constexpr int kMessages = 20000;
  const auto bytesOf = [](int i) { return std::size_t{64} + static_cast<std::size_t>(i) % 961; };
  std::thread consumer([&] {
    for (int i = 0; i < kMessages; ++i) {
      while (!ends.consumer.readable()) std::this_thread::yield();
      const std::byte* const body = ends.consumer.readBody(bytesOf(i));
      const auto due = [&](std::byte one) { return one == static_cast<std::byte>(i % 255 + 1); };
      if (!std::all_of(body, body + bytesOf(i), due)) std::abort();
      ends.consumer.release();
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    while (!ends.producer.writable(bytesOf(i))) std::this_thread::yield();
    std::memset(ends.producer.writeBody(bytesOf(i)), i % 255 + 1, bytesOf(i));
    ends.producer.publish({5, bytesOf(i)});
  }
  consumer.join();
}

// Proves: the consumer gets exactly the bytes that the producer has reported, also if it looks
// late; readBody() returns the body only when it is complete; the next message is not affected.
TEST_CASE("a consumer copies a body while the producer writes it", "[ring]") {
  constexpr std::size_t kPiece = 256;
  const auto data = filled(7);
  for (const bool takes : {false, true}) {
    Ends ends(2);
    ends.consumer.takeLines(takes);
    for (int turn = 0; turn < 5; ++turn) {
      REQUIRE(ends.producer.writable(kSlot));
      std::byte* const body = ends.producer.publishEarly({5, kSlot});
      REQUIRE(ends.consumer.readable()->bytes == kSlot);
      auto to = filled(1);
      CHECK(ends.consumer.awaitsBody());
      CHECK(ends.consumer.readBody(kSlot, &ends.loans) == nullptr);
      CHECK(ends.consumer.unmapped() == nullptr);
      CHECK(ends.consumer.early());
      CHECK_FALSE(ends.consumer.copyWritten(to.data(), kSlot));
      CHECK(to == filled(1));
      for (std::size_t done = 0; done < kSlot; done += kPiece) {
        std::memcpy(body + done, data.data() + done, kPiece);
        ends.producer.wrote(done + kPiece, kSlot);
        if (done == kPiece) continue; // the consumer is late
        CHECK(ends.consumer.early());
        CHECK(ends.consumer.copyWritten(to.data(), kSlot) == (done + kPiece == kSlot));
        CHECK(std::memcmp(to.data(), data.data(), done + kPiece) == 0);
        CHECK(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(done + kPiece), to.end(),
                          [](std::byte one) { return one == std::byte{1}; }));
      }
      CHECK_FALSE(ends.consumer.awaitsBody());
      // It has written to one byte of each line.
      CHECK(std::count(body, body + kSlot, std::byte{0}) == (takes ? 16 : 0));
      ends.consumer.release();

      // A consumer that does not copy gets the whole body as any other.
      REQUIRE(ends.producer.writable(kSlot));
      std::memcpy(ends.producer.publishEarly({5, kSlot}), data.data(), kSlot);
      ends.producer.wrote(kSlot, kSlot);
      REQUIRE(ends.consumer.readable());
      CHECK_FALSE(ends.consumer.early());
      REQUIRE(ends.consumer.readBody(kSlot));
      CHECK(std::memcmp(ends.consumer.readBody(kSlot), data.data(), kSlot) == 0);
      ends.consumer.release();
    }
  }
}

TEST_CASE("every body arrives whole while both ends copy it", "[ring]") {
  constexpr std::size_t kPiece = 256;
  constexpr int kMessages = 5000;
  const auto valueOf = [](int i, std::size_t at) {
    return static_cast<std::byte>((static_cast<std::size_t>(i) * 7 + at / kPiece) % 255 + 1);
  };
  for (const bool takes : {false, true}) {
    Ends ends(2);
    ends.consumer.takeLines(takes);
    std::thread consumer([&] {
      std::vector<std::byte> to(kSlot);
      for (int i = 0; i < kMessages; ++i) {
        while (!ends.consumer.readable()) std::this_thread::yield();
        while (!ends.consumer.copyWritten(to.data(), kSlot)) std::this_thread::yield();
        for (std::size_t at = 0; at < kSlot; ++at)
          if (to[at] != valueOf(i, at)) std::abort();
        ends.consumer.release();
      }
    });
    for (int i = 0; i < kMessages; ++i) {
      while (!ends.producer.writable(kSlot)) std::this_thread::yield();
      std::byte* const body = ends.producer.publishEarly({5, kSlot});
      for (std::size_t at = 0; at < kSlot; at += kPiece) {
        std::memset(body + at, static_cast<int>(valueOf(i, at)), kPiece);
        ends.producer.wrote(at + kPiece, kSlot);
      }
    }
    consumer.join();
  }
}

// The second half of a line was part of a larger message's body before. Its bytes must not be taken
// for a flag.
TEST_CASE("bytes of an earlier message are never taken for a message", "[ring]") {
  const int lines = static_cast<int>(kLinesPerSlot);
  // The flag of the second half in the ring's next turn, and the flag that skips it.
  for (const std::uint64_t mark : {std::uint64_t{0}, std::uint64_t{1} << 63}) {
    Ends ends(1);
    auto body = filled(0);
    const auto pass = [&](std::size_t bytes) {
      REQUIRE(ends.producer.writable(bytes));
      std::memcpy(ends.producer.writeBody(bytes), body.data(), bytes);
      ends.producer.publish({1, bytes});
      REQUIRE(ends.consumer.readable()->bytes == bytes);
      ends.consumer.release();
      REQUIRE_FALSE(ends.consumer.readable());
    };
    for (int line = 0; line < lines; ++line) {
      const std::uint64_t flag = mark | static_cast<std::uint64_t>(2 * (lines + line) + 2);
      std::memcpy(body.data() + 8, &flag, sizeof flag);
      pass(SlotRing::kInlineBytes);
    }
    for (int i = 0; i < 2 * lines; ++i) pass(SlotRing::kSmallBytes);
  }
}

TEST_CASE("a message that needs a whole line skips the rest of the last one", "[ring]") {
  Ends ends(1);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t bytes = i % 2 == 0 ? 8 : i % 4 == 1 ? 40 : kSlot;
    REQUIRE(ends.producer.writable(bytes));
    std::memset(ends.producer.writeBody(bytes), i, bytes);
    ends.producer.publish({static_cast<std::uint64_t>(i), bytes});
    if (i % 2 == 0) continue;
    for (int due = i - 1; due <= i; ++due) {
      const MessageHeader* header = ends.consumer.readable();
      REQUIRE(header);
      REQUIRE(header->signature == static_cast<std::uint64_t>(due));
      REQUIRE(ends.consumer.readBody(header->bytes)[header->bytes - 1] ==
              static_cast<std::byte>(due));
      ends.consumer.release();
    }
    REQUIRE_FALSE(ends.consumer.readable());
  }
}

// Free slots are assigned in any order: no body may be overwritten before it is released.
TEST_CASE("messages of all sizes, consumed late and in bursts, keep their bodies", "[ring]") {
  Ends ends(5);
  std::vector<std::size_t> sent;
  std::uint32_t random = 7;
  std::size_t received = 0;
  for (int i = 0; i < 20000; ++i) {
    random = random * 1664525 + 1013904223;
    const std::size_t sizes[] = {0, 8, 9, 40, 41, kSlot};
    const std::size_t bytes = sizes[(random >> 8) % 6];
    if ((random >> 16) % 2 == 0 && ends.producer.writable(bytes)) {
      if (bytes > 0)
        std::memset(ends.producer.writeBody(bytes), static_cast<int>(sent.size()), bytes);
      if (bytes > 0) REQUIRE(ends.producer.writeBody(bytes) == ends.producer.writeBody(bytes));
      ends.producer.publish({sent.size(), bytes});
      sent.push_back(bytes);
    } else if (const MessageHeader* header = ends.consumer.readable()) {
      REQUIRE(header->signature == received);
      REQUIRE(header->bytes == sent[received]);
      const std::byte* body = ends.consumer.readBody(sent[received]);
      for (std::size_t b = 0; b < sent[received]; ++b)
        REQUIRE(body[b] == static_cast<std::byte>(received));
      ends.consumer.release();
      ++received;
    } else {
      REQUIRE(received == sent.size());
    }
  }
  CHECK(received > 5000);
}

} // namespace rondo::test
