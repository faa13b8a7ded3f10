// The relay between a kernel's ring and a network channel, step by step, on one thread: the test
// plays the kernels, the wire and the clock.
#include "engine/device_relay.h"

#include <cstring>
#include <deque>
#include <vector>

#include "device/device.h"
#include "rondo/error.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace transport;
using device::Label;
using device::Ring;
using device::RingSize;
using engine::DeviceRelay;

constexpr RingSize kSize{device::Protocol::simple, 3, 256};
constexpr int kPortDepth = 2;

/// A network channel whose every byte the test sees. Sent messages stay pending, in the sender's
/// memory, until the test takes them.
struct Wire {
  struct Message {
    MessageHeader header;
    std::vector<std::byte> body;
  };
  std::deque<std::pair<MessageHeader, const std::byte*>> pending;
  std::deque<Message> arrived;
  bool closed = false;  ///< both ends throw; the receiver does when it has received everything
  bool slowly = false;  ///< a body arrives with the second receive()
  int polls_needed = 0; ///< polls until it is connected
  bool refused = false; ///< it never connects

  /// Takes the oldest pending message off the wire.
  Message take() {
    const auto [header, body] = pending.front();
    pending.pop_front();
    return {header, {body, body + header.bytes}};
  }
};

[[noreturn]] void gone() { throw Error(ErrorCode::peer_dead, "rank 1 closed the connection", 1); }

class WireSender final : public NetworkSender {
 public:
  explicit WireSender(Wire& wire) : wire_(wire) {}
  std::size_t pending() const override { return wire_.pending.size(); }
  bool start(const MessageHeader& header, std::span<const ConstBytes> body) override {
    if (wire_.closed) gone();
    if (pending() == kPortDepth) return false;
    wire_.pending.emplace_back(header, static_cast<const std::byte*>(body[0].data));
    return true;
  }
  bool progress() override { return false; }
  bool reads(const void*, std::size_t) const override { return false; }

 private:
  Wire& wire_;
};

class WireReceiver final : public NetworkReceiver {
 public:
  explicit WireReceiver(Wire& wire) : wire_(wire) {}
  const MessageHeader* peek() override {
    if (!wire_.arrived.empty()) return &wire_.arrived.front().header;
    if (wire_.closed) gone();
    return nullptr;
  }
  bool receive(std::span<const MutableBytes> body) override {
    if (wire_.slowly && (again_ = !again_)) return false;
    const auto& from = wire_.arrived.front().body;
    if (!from.empty()) std::memcpy(body[0].data, from.data(), from.size());
    wire_.arrived.pop_front();
    return true;
  }

 private:
  Wire& wire_;
  bool again_ = false;
};

class Opening final : public PendingPort {
 public:
  Opening(Wire& wire, bool sends) : wire_(wire), sends_(sends) {}
  std::unique_ptr<Port> poll() override {
    if (wire_.refused) throw Error(ErrorCode::transport, "no connection", 1);
    if (wire_.polls_needed > 0 && wire_.polls_needed--) return nullptr;
    auto port = std::make_unique<Port>();
    if (sends_) port->path = std::make_unique<WireSender>(wire_);
    else port->path = std::make_unique<WireReceiver>(wire_);
    return port;
  }

 private:
  Wire& wire_;
  const bool sends_;
};

DeviceMemory ringMemory() {
  struct alignas(device::kRingLine) Line {
    std::byte bytes[device::kRingLine] = {};
  };
  const auto part = [](std::size_t bytes) {
    const std::shared_ptr<Line[]> lines(new Line[bytes / sizeof(Line)]);
    return std::shared_ptr<std::byte>(lines, lines[0].bytes);
  };
  return {part(kSize.inboxBytes()), part(RingSize::creditBytes()), kSize.inboxBytes()};
}

/// A relay of rank 0, its wire to rank 1, and a kernel's operations on its ring.
struct Bench {
  explicit Bench(bool sends)
      : relay({{7, sends ? 0 : 1, sends ? 1 : 0, 4}, sends, kSize, memory},
              std::make_unique<Opening>(wire, sends)),
        ring(kSize.ring(memory.inbox.get(), memory.credit.get(), nullptr)) {}

  /// Steps until nothing moves; whether anything did.
  bool settle() {
    bool any = false;
    for (int turns = 0; turns < 100 && relay.step(); ++turns) any = true;
    return any;
  }
  std::uint64_t slotOf(std::uint64_t number) const { return (number - 1) % kSize.depth; }
  const Label& label(std::uint64_t number) const { return ring.labels[slotOf(number)]; }
  std::byte* body(std::uint64_t number) const { return ring.slots + slotOf(number) * ring.stride; }
  /// Publishes message `number` as a sending kernel; its bytes are its number.
  void publish(std::uint64_t number, std::size_t bytes) {
    std::memset(body(number), static_cast<int>(number), bytes);
    ring.labels[slotOf(number)] = {100 + number, bytes, nullptr};
    *ring.published = number;
  }

  Wire wire;
  DeviceMemory memory = ringMemory();
  DeviceRelay relay;
  Ring ring;
};

Wire::Message message(std::uint64_t number, std::size_t bytes) {
  return {{100 + number, bytes}, std::vector<std::byte>(bytes, static_cast<std::byte>(number))};
}
bool same(const Wire::Message& one, const Wire::Message& other) {
  return one.header.signature == other.header.signature && one.header.bytes == other.header.bytes &&
         one.body == other.body;
}
Caught errorOf(const DeviceRelay& relay) {
  return caught([&] {
    if (const auto error = relay.error()) std::rethrow_exception(error);
  });
}

} // namespace

// Proves: messages of any size, also empty ones, are sent in order with their labels, directly from
// their slots. A slot is returned when the port has taken its message, not earlier.
TEST_CASE("a sending relay passes the kernel's messages to the port") {
  Bench bench(true);
  bench.wire.polls_needed = 2;
  CHECK(bench.relay.drained());
  const std::size_t sizes[] = {5, 0, 256, 1, 0, 0, 77, 256, 3};
  std::uint64_t published = 0, taken = 0;
  for (int turn = 0; turn < 40 && taken < std::size(sizes); ++turn) {
    while (published < std::size(sizes) && published - *bench.ring.consumed < kSize.depth) {
      bench.publish(published + 1, sizes[published]);
      ++published;
    }
    bench.settle();
    CHECK(*bench.ring.consumed == taken);
    CHECK_FALSE(bench.relay.drained());
    if (turn < 3) continue; // connecting
    REQUIRE(bench.wire.pending.size() == std::min<std::size_t>(kPortDepth, published - taken));
    CHECK(bench.wire.pending.front().second == bench.body(taken + 1));
    CHECK(same(bench.wire.take(), message(taken + 1, sizes[taken])));
    ++taken;
    bench.settle();
    CHECK(*bench.ring.consumed == taken);
  }
  CHECK(taken == std::size(sizes));
  CHECK(bench.relay.drained());
  CHECK_FALSE(bench.settle());
}

// Proves: messages arrive in order and complete, with label and size. While the ring is full,
// nothing is taken off the wire.
TEST_CASE("a receiving relay fills the ring, and waits while it is full") {
  Bench bench(false);
  bench.wire.slowly = true;
  const std::size_t sizes[] = {5, 0, 256, 1, 0, 77, 256};
  for (std::uint64_t n = 1; n <= std::size(sizes); ++n)
    bench.wire.arrived.push_back(message(n, sizes[n - 1]));
  std::uint64_t published = 0;
  for (std::uint64_t taken = 0; taken < std::size(sizes); ++taken) {
    for (int turn = 0; turn < 10; ++turn) bench.relay.step();
    published = std::min<std::uint64_t>(taken + kSize.depth, std::size(sizes));
    CHECK(*bench.ring.published == published);
    CHECK(bench.wire.arrived.size() == std::size(sizes) - published);
    const Label& label = bench.label(taken + 1);
    const Wire::Message seen{{label.call, label.bytes},
                             {bench.body(taken + 1), bench.body(taken + 1) + label.bytes}};
    CHECK(same(seen, message(taken + 1, sizes[taken])));
    *bench.ring.consumed = taken + 1;
  }
  CHECK_FALSE(bench.settle());
  CHECK(bench.relay.drained());
}

// Proves: that a network channel has ended is published to the kernel after the last message, when
// there is room, and nowhere else: it is no failure unless a message is still needed.
TEST_CASE("a receiving relay marks the end after the last message") {
  Bench bench(false);
  for (std::uint64_t n = 1; n <= kSize.depth; ++n) bench.wire.arrived.push_back(message(n, 8));
  bench.wire.closed = true;
  bench.settle();
  CHECK(*bench.ring.published == kSize.depth);
  CHECK(bench.label(kSize.depth).call == 100 + kSize.depth);
  *bench.ring.consumed = 1;
  bench.settle();
  CHECK(*bench.ring.published == kSize.depth + 1);
  CHECK(DeviceRelay::marksEnd(bench.label(kSize.depth + 1).call));
  CHECK(bench.label(2).call == 102);
  CHECK_FALSE(bench.relay.stranded());
  const Caught error = errorOf(bench.relay);
  CHECK(says(error, ErrorCode::peer_dead, {"closed"}));
  CHECK(error.culprit == 1);
  *bench.ring.consumed = kSize.depth;
  CHECK_FALSE(bench.settle()); // only once
}

// Proves: a header that no rank's kernel can have sent ends the network channel and changes no
// slot.
TEST_CASE("a receiving relay refuses impossible headers") {
  for (const MessageHeader& header :
       {MessageHeader{1, kSize.slot_bytes + 1}, MessageHeader{1, ~std::uint64_t{0}},
        MessageHeader{~std::uint64_t{0}, 8}}) {
    Bench bench(false);
    bench.wire.arrived.push_back(message(1, 8));
    bench.wire.arrived.push_back({header, {}});
    bench.settle();
    CHECK(*bench.ring.published == 2);
    CHECK(bench.label(1).call == 101);
    CHECK(DeviceRelay::marksEnd(bench.label(2).call));
    const Caught error = errorOf(bench.relay);
    CHECK(says(error, ErrorCode::transport, {"rank 1, channel 4: "}));
    CHECK(error.culprit == 1);
    CHECK(bench.wire.arrived.size() == 1);
  }
}

// Proves: a sender's broken network channel matters if there is something to send, whether it broke
// before or after that was published, or was never connected.
TEST_CASE("a sending relay is stranded when a message cannot leave") {
  for (const bool connected : {true, false}) {
    Bench bench(true);
    if (connected) {
      bench.publish(1, 8);
      bench.settle();
      bench.wire.take();
      bench.settle();
      CHECK(bench.relay.drained());
      bench.wire.closed = true;
    } else {
      bench.wire.refused = true;
    }
    bench.settle();
    CHECK_FALSE(bench.relay.stranded());
    bench.publish(connected ? 2 : 1, 8);
    bench.settle();
    CHECK(bench.relay.stranded());
    CHECK(errorOf(bench.relay).culprit == 1);
    CHECK_FALSE(bench.settle());
  }
}

} // namespace rondo::test
