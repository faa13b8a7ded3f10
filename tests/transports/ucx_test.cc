// Properties of ucx that the conformance tests do not cover: unknown clients of its worker, peers
// that know the secret and break the protocol, the end of a rank.
#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/codec.h"
#include "base/fork.h"
#include "harness.h"
#include "rondo/error.h"
#include "support/test.h"
#include "transports/ucx/channels.h"
#include "transports/ucx/open_module.h"
#include "transports/ucx/wire.h"

namespace rondo::test {
namespace {

using namespace transport;

/// Null in a build without ucx.
const Kind* ucxKind() {
  static const std::vector<Kind> all = conformingKinds();
  for (const Kind& kind : all)
    if (kind.name == "ucx") return &kind;
  return nullptr;
}

/// The UCX worker's address in a rank's address.
Bytes workerAddress(const Address& address) {
  base::Reader in(address, "ucx address");
  in.u8();
  in.text(64);
  const auto worker = in.blob(kMostAddressBytes);
  return {worker.begin(), worker.end()};
}

/// A worker that belongs to no rank, with a connection to one.
class Stranger final : public ucx::Events {
 public:
  explicit Stranger(const Address& address) {
    std::string why;
    ucx::Module* module = ucx::openModule(why);
    require(module != nullptr, "no module");
    worker_ = module->makeWorker({}, *this, why);
    require(worker_ != nullptr, "no worker");
    to_ = worker_->connect(0, workerAddress(address), why);
    require(to_ != nullptr, "no connection");
  }
  bool arrived(const ucx::Arrival& arrival) noexcept override {
    heard.assign(arrival.header.begin(), arrival.header.end());
    return false;
  }
  void broke(int, bool, const char*) noexcept override {}

  /// The address that a rank of this context would have.
  Address address(const Context& context) const {
    std::string why;
    base::Writer out;
    out.u8(1);
    out.text(ucx::openModule(why)->version());
    out.blob(worker_->address());
    const auto proof = ucx::proofOf(context, "rondo ucx address", out.bytes());
    out.raw(std::span(proof).first(ucx::kProofBytes));
    return out.take();
  }
  bool progress() { return worker_->progress(); }
  /// Sends, and waits until the message was sent. `victim` makes progress meanwhile.
  void send(std::span<const std::byte> header, const Bytes& body, Worker* victim) {
    ucx::Operation operation;
    const ucx::Piece piece{const_cast<std::byte*>(body.data()), body.size()};
    worker_->send(*to_, header, std::span(&piece, body.empty() ? 0 : 1), false, operation);
    const Watch watch("for a message to leave");
    do {
      worker_->progress();
      victim->progress();
      watch.check();
    } while (operation.pending);
    for (int i = 0; i < 100; ++i) victim->progress();
  }

  Bytes heard; ///< the last header

 private:
  std::unique_ptr<ucx::UcpWorker> worker_;
  ucx::Endpoint* to_ = nullptr;
};

/// A module without UCX, whose workers only call `polled` when they are polled.
class PolledModule final : public ucx::Module {
 public:
  std::function<void()> polled = [] {};

  std::string version() const override { return "0"; }
  std::string fabric(const ucx::Settings&) override { return {}; }
  std::unique_ptr<ucx::UcpWorker> makeWorker(const ucx::Settings&, ucx::Events&,
                                             std::string&) override {
    return std::make_unique<Polled>(*this);
  }

 private:
  class Polled final : public ucx::UcpWorker {
   public:
    explicit Polled(PolledModule& module) : module_(module) {}
    std::span<const std::byte> address() const noexcept override { return {}; }
    bool progress() noexcept override {
      module_.polled();
      return false;
    }
    ucx::Endpoint* connect(int, std::span<const std::byte>, std::string&) override {
      return nullptr;
    }
    void send(ucx::Endpoint&, std::span<const std::byte>, std::span<const ucx::Piece>, bool,
              ucx::Operation&) noexcept override {}
    void fetch(void*, std::span<const ucx::Piece>, ucx::Operation&) noexcept override {}
    void drop(void*) noexcept override {}
    void close() noexcept override {}
    bool closed() noexcept override { return true; }

   private:
    PolledModule& module_;
  };
};

void exchange(World& world, int src, int dst) {
  auto [out, in] = world.connect(src, dst, 1);
  out.send(3, patternOf(3, 500));
  std::uint64_t signature = 0;
  CHECK(in.next(signature) == patternOf(3, 500));
}

/// The error that the end throws within a while.
Error thrownBy(const std::function<void()>& look) {
  try {
    for (const Watch watch("for an error"); true; watch.check()) look();
  } catch (const Error& error) {
    return error;
  }
}

} // namespace

TEST_CASE("ucx: a client without the secret does not disturb the ranks") {
  if (!ucxKind()) return;
  World world(*ucxKind(), 3);
  Stranger stranger(world.address(1));
  Worker* victim = world[1].worker();
  auto pending = world.open(1, world.id(0, 1));
  std::mt19937_64 random(4);
  for (std::size_t size = 0; size <= 64; ++size) {
    Bytes header(size);
    for (auto& b : header) b = static_cast<std::byte>(random());
    stranger.send(header, patternOf(size, size * 50), victim);
    if (size >= 4) // a valid word
      base::storeLittleEndian(header.data(), static_cast<std::uint32_t>(1 + size % 6));
    stranger.send(header, {}, victim);
  }
  Context other_job = world.context(0), other_communicator = world.context(0);
  other_job.secret = net::Secret::random();
  other_communicator.communicator ^= 1;
  for (const auto word : {ucx::Word::hello, ucx::Word::welcome, ucx::Word::goodbye}) {
    ucx::Greeting greeting;
    greeting.word = word;
    greeting.src = 0;
    greeting.dst = 1;
    stranger.send(greeting.encode(other_job), {}, victim);
    stranger.send(greeting.encode(other_communicator), {}, victim);
  }
  CHECK(pending->poll() == nullptr);
  exchange(world, 0, 1);
  exchange(world, 1, 2);
}

TEST_CASE("ucx: a peer that knows the secret and breaks the rules is an error that names it") {
  if (!ucxKind()) return;
  struct Case {
    std::uint32_t number;
    std::size_t bytes;
    const char* says;
  };
  for (const Case& one : {Case{kUcxWindow, 8, "out of turn"}, Case{~0u, 8, "out of turn"},
                          Case{0, 4097, "announced a message of 4097 bytes"}}) {
    INFO(one.says << ", number " << one.number);
    World world(*ucxKind(), 2, withSize(4096, 1));
    Stranger stranger(world.address(1));
    Worker* victim = world[1].worker();
    auto pending = world[1].open(world.id(0, 1), stranger.address(world.context(0)));
    ucx::Greeting hello;
    hello.dst = 1;
    hello.sender_key = 5;
    stranger.send(hello.encode(world.context(0)), {}, victim);
    In in(wait(*pending), victim);
    ucx::Greeting welcome;
    const Watch watch("for the welcome");
    for (; !welcome.decode(stranger.heard, world.context(0)); watch.check()) {
      stranger.progress();
      victim->progress();
    }
    CHECK(welcome.sender_key == 5);
    // The right key and an allowed message first, then the violation.
    ucx::Short header{ucx::Word::body, 0, welcome.receiver_key, 9};
    if (one.number != 0) {
      stranger.send(header.encode(), patternOf(1, 8), victim);
      std::uint64_t signature = 0;
      CHECK(in.next(signature) == patternOf(1, 8));
      CHECK(signature == 9);
    }
    header.number = one.number == 0 ? 0 : one.number + 1;
    stranger.send(header.encode(), patternOf(1, one.bytes), victim);
    const Error error = thrownBy([&] {
      stranger.progress();
      in.peek();
    });
    CHECK(error.code() == ErrorCode::transport);
    CHECK(error.culprit() == 0);
    CHECK(std::string(error.what()).find(one.says) != std::string::npos);
  }
}

TEST_CASE("ucx: the orderly end of a peer is an error only if more messages are needed") {
  if (!ucxKind()) return;
  World world(*ucxKind(), 2);
  auto [out, in] = world.connect(0, 1);
  auto [back, heard] = world.connect(1, 0);
  {
    Out gone = std::move(out);
    for (std::uint64_t i = 0; i < 5; ++i) gone.send(i, patternOf(i, 100 * i));
    gone.flush();
  }
  { In gone = std::move(heard); }
  world.remove(0);
  for (std::uint64_t i = 0; i < 5; ++i) {
    std::uint64_t signature = 0;
    CHECK(in.next(signature) == patternOf(i, 100 * i));
    CHECK(signature == i);
  }
  const Error more = thrownBy([&, &to = in] { to.peek(); });
  CHECK(more.code() == ErrorCode::peer_dead);
  CHECK(more.culprit() == 0);
  const Bytes body = patternOf(1, 100);
  const Error sent = thrownBy([&, &from = back] {
    from.start(1, body);
    from.progress();
  });
  CHECK(sent.culprit() == 0);
}

// Proves: once the sender's call may return, closing does not take the message away from a receiver
// that still fetches it.
TEST_CASE("ucx: a rank that closes right after a large message has been taken does not lose it") {
  if (!ucxKind()) return;
  for (const char* transports : {"", "tcp", "posix,tcp", "posix,cma"})
    for (const std::size_t bytes : {kUcxEagerBytes + 1, std::size_t{256} << 10})
      for (int round = 0; round < 10; ++round) {
        INFO("UCX over " << transports << ", " << bytes << " bytes, round " << round);
        Options options;
        options.ucx_transports = transports;
        World world(*ucxKind(), 2, options);
        auto [out, in] = world.connect(0, 1);
        const Bytes body = patternOf(1, bytes);
        REQUIRE(out.start(1, body));
        const Watch watch("for the sender to be done");
        while (!in.peek()) {
          out.progress();
          watch.check();
        }
        Bytes got(bytes);
        const MutableBytes into{got.data(), got.size()};
        bool received = in.receive(std::span(&into, 1));
        while (out.pending() > 0) {
          for (int i = 0; i < round; ++i) out.progress();
          in.peek();
          out.progress();
          watch.check();
        }
        inParallel({[&, &from = out] {
                      { Out gone = std::move(from); }
                      world.remove(0);
                    },
                    [&, &to = in] {
                      for (; !received; watch.check()) {
                        to.peek();
                        received = to.receive(std::span(&into, 1));
                      }
                    }});
        CHECK(got == body);
      }
}

// Proves: after a failure, a rank that closes does not wait for receipts that will never come.
TEST_CASE("ucx: ranks that close do not wait for messages that were not received") {
  if (!ucxKind()) return;
  // One fast round is enough, because in the others the process may have got no processor time.
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int round = 0; round < 20 && shortest >= kUcxEnd / 2; ++round) {
    World world(*ucxKind(), 2);
    const Bytes body = patternOf(1, 2 * kUcxEagerBytes);
    {
      auto [out, in] = world.connect(0, 1);
      auto [back, heard] = world.connect(1, 0);
      REQUIRE(out.start(1, body));
      REQUIRE(back.start(1, body));
      const Watch arrival("for the messages");
      for (; !in.peek() || !heard.peek(); arrival.check()) {
        out.progress();
        back.progress();
      }
      { In gone = std::move(in); }
      { In gone = std::move(heard); }
      const Watch drop("for UCX to drop the messages");
      for (; out.pending() + back.pending() > 0; drop.check()) {
        out.progress();
        back.progress();
      }
    }
    const auto start = std::chrono::steady_clock::now();
    inParallel({[&] { world.remove(0); }, [&] { world.remove(1); }});
    shortest = std::min(shortest, std::chrono::steady_clock::now() - start);
  }
  CHECK(shortest < kUcxEnd / 2);
}

// Proves: after abandon() UCX accesses neither the output of a receive nor the input of a send that
// were in progress, although another communicator's thread polls all workers of the process. With
// the address sanitizer, an access to the freed input is an error.
TEST_CASE("ucx: after a failure nothing accesses the memory of messages") {
  if (!ucxKind()) return;
  for (const char* transports : {"tcp", "posix,tcp"})
    for (const bool receiver_fails : {true, false}) {
      INFO("UCX over " << transports << ", the receiver fails: " << receiver_fails);
      Options options;
      options.ucx_transports = transports;
      World world(*ucxKind(), 2, options), other(*ucxKind(), 2, options, 8);
      auto [out, in] = world.connect(0, 1);
      auto body = std::make_unique<Bytes>(patternOf(1, std::size_t{256} << 10));
      REQUIRE(out.start(1, *body));
      const Watch arrival("for the message");
      for (; !in.peek(); arrival.check()) out.progress();
      Bytes got(body->size());
      const MutableBytes into{got.data(), got.size()};
      REQUIRE_FALSE(in.receive(std::span(&into, 1)));
      world[receiver_fails ? 1 : 0].worker()->abandon();
      const Bytes before = got;
      if (!receiver_fails) body.reset();
      for (std::uint32_t i = 0; i < 100 * kUcxVisit; ++i) {
        other[0].worker()->progress();
        if (receiver_fails) world[0].worker()->progress();
      }
      if (!receiver_fails) continue;
      CHECK((got == before)); // not printed
      CHECK(thrownBy([&from = in] { from.peek(); }).culprit() == 0);
    }
}

// Proves: a rank that waits until it may join the polled workers holds no NoFork. A polled worker
// that logs needs one.
TEST_CASE("ucx: a worker that another rank polls may log while a third rank opens its own") {
  PolledModule quiet, asking;
  const Context context = makeContext(0, 2, 7, {}, net::Secret::random(), nullptr);
  ucx::Channels visitor(quiet, {}, context), visited(asking, {}, context);
  std::atomic<bool> logged{false};
  std::jthread opens, logs;
  asking.polled = [&] {
    if (logs.joinable()) return;
    opens = std::jthread([&] { ucx::Channels(quiet, {}, context); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // until it waits
    logs = std::jthread([&] {
      const base::NoFork whole;
      logged = true;
    });
    const base::Deadline deadline(std::chrono::seconds(5));
    while (!logged && !deadline.passed()) std::this_thread::yield();
    CHECK(logged);
  };
  for (std::uint32_t i = 0; i < kUcxVisit; ++i) visitor.progress();
  CHECK(logged);
}

TEST_CASE("ucx: an address without the secret's proof is not passed to UCX") {
  if (!ucxKind()) return;
  World world(*ucxKind(), 2), other(*ucxKind(), 2);
  try {
    world.open(0, world.id(0, 1));
    (void)world[0].reaches(other.address(1)); // of another job
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::transport);
    CHECK(std::string(error.what()).find("secret") != std::string::npos);
  }
}

} // namespace rondo::test
