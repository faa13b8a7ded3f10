// The most restrictive network channel possible: it buffers nothing, so a message stays in the
// sender's memory until the receiver takes it, a few bytes at a time. Every algorithm must end with
// the right result if all channels are like that, and if only some are. One thread runs all ranks
// in turn, so a deadlock is noticed at once, without a deadline. Longer than 500 lines, because the
// network and its ranks serve these cases only.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "engine/host_engine.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace transport;

struct Message {
  MessageHeader header;
  std::vector<std::byte*> bytes; ///< address of each byte in the sender's memory
  std::size_t taken = 0;
  bool here = false; ///< the receiver's worker has seen it
};

/// All channels of all ranks.
struct Network {
  int depth = 1;
  enum class Sharing {
    none,
    mixed,
    all
  } sharing = Sharing::none; ///< pairs that use shared memory instead
  bool lending = false;      ///< messages in shared memory are lent where allowed
  /// How the receiver gets lent messages. mapped: it reads them in place. shared: both ranks copy.
  /// unwritable: the receiver copies alone, because the sender cannot write. refused: it cannot
  /// read them.
  enum class Bodies { mapped, shared, unwritable, refused } bodies = Bodies::mapped;
  int lost = -1;         ///< messages that this rank lends cannot be found
  bool worked = false;   ///< a message arrives only when the receiver's worker has seen it
  std::size_t looks = 0; ///< number of polls by all workers
  std::size_t sent = 0;  ///< at the last poll: messages in flight from the rank that polled
  int abandoned = -1;    ///< the rank whose worker was told to leave the memory of messages alone
  std::size_t slot_bytes = 1024;
  std::size_t moved = 0;
  std::map<ChannelId, std::deque<Message>> queues;
  std::map<ChannelId, std::shared_ptr<void>> rings;

  bool mapped(const ChannelId& id) const {
    return sharing == Sharing::all || (sharing == Sharing::mixed && (id.src + id.dst) % 2 == 0);
  }
  std::size_t onTheWay(int from) const {
    std::size_t messages = 0;
    for (const auto& [id, queue] : queues) messages += id.src == from ? queue.size() : 0;
    return messages;
  }
};

/// If lent memory is overwritten, the result is wrong.
class Pointers : public Loans {
 public:
  explicit Pointers(bool lost, Network::Bodies bodies = Network::Bodies::mapped)
      : lost_(lost), bodies_(bodies) {}
  std::size_t worthFrom(Use) const override { return 0; }
  std::optional<Loan> offer(const void* data, std::size_t, Use) override {
    return Loan{{reinterpret_cast<std::uintptr_t>(data)}};
  }
  const std::byte* find(const Loan& loan, std::size_t) override {
    if (lost_) throw Error(ErrorCode::transport, "not found");
    return bodies_ == Network::Bodies::mapped ? reinterpret_cast<const std::byte*>(loan.words[0])
                                              : nullptr;
  }
  bool read(const Loan& loan, std::size_t offset, void* to, std::size_t size) override {
    if (bodies_ == Network::Bodies::refused) return false;
    std::memcpy(to, reinterpret_cast<const std::byte*>(loan.words[0]) + offset, size);
    return true;
  }
  bool shared(const Loan&) const override { return bodies_ != Network::Bodies::mapped; }
  bool write(const void* from, std::uint64_t to, std::size_t size) override {
    if (bodies_ != Network::Bodies::shared) return false;
    std::memcpy(reinterpret_cast<void*>(static_cast<std::uintptr_t>(to)), from, size);
    return true;
  }

 private:
  const bool lost_;
  const Network::Bodies bodies_;
};

class Sender : public NetworkSender {
 public:
  Sender(Network& network, std::deque<Message>& queue) : network_(network), queue_(queue) {}
  std::size_t pending() const override { return queue_.size(); }
  bool start(const MessageHeader& header, std::span<const ConstBytes> body) override {
    if (queue_.size() >= static_cast<std::size_t>(network_.depth)) return false;
    Message message{header, {}, 0};
    for (const ConstBytes& piece : body)
      for (std::size_t i = 0; i < piece.size; ++i)
        message.bytes.push_back(static_cast<std::byte*>(const_cast<void*>(piece.data)) + i);
    queue_.push_back(std::move(message));
    return true;
  }
  bool progress() override { return false; }
  bool reads(const void* data, std::size_t size) const override {
    const auto* from = static_cast<const std::byte*>(data);
    for (const Message& message : queue_)
      for (std::size_t i = message.taken; i < message.bytes.size(); ++i)
        if (message.bytes[i] >= from && message.bytes[i] < from + size) return true;
    return false;
  }

 private:
  Network& network_;
  std::deque<Message>& queue_;
};

class Receiver : public NetworkReceiver {
 public:
  Receiver(Network& network, std::deque<Message>& queue) : network_(network), queue_(queue) {}
  const MessageHeader* peek() override {
    if (queue_.empty() || (network_.worked && !queue_.front().here)) return nullptr;
    return &queue_.front().header;
  }
  bool receive(std::span<const MutableBytes> body) override {
    constexpr std::size_t kPortion = 300;
    Message& message = queue_.front();
    const std::size_t upto = std::min(message.taken + kPortion, message.bytes.size());
    std::size_t at = 0;
    for (const MutableBytes& piece : body)
      for (std::size_t i = 0; i < piece.size; ++i, ++at)
        if (at >= message.taken && at < upto)
          static_cast<std::byte*>(piece.data)[i] = *message.bytes[at];
    message.taken = upto;
    ++network_.moved;
    if (upto < message.bytes.size()) return false;
    queue_.pop_front();
    return true;
  }

 private:
  Network& network_;
  std::deque<Message>& queue_;
};

/// The worker of all channels to a rank.
class Looker : public Worker {
 public:
  Looker(Network& network, int rank) : network_(network), rank_(rank) {}
  bool progress() noexcept override {
    ++network_.looks;
    network_.sent = network_.onTheWay(rank_);
    bool moved = false;
    for (auto& [id, messages] : network_.queues)
      for (Message& message : messages)
        if (id.dst == rank_ && !message.here) moved = message.here = true;
    return moved;
  }
  void abandon() noexcept override { network_.abandoned = rank_; }

 private:
  Network& network_;
  const int rank_;
};

class Rendezvous : public Transport {
 public:
  Rendezvous(Network& network, int rank) : network_(network), rank_(rank), looker_(network, rank) {}
  Worker* worker() override { return network_.worked ? &looker_ : nullptr; }
  std::string_view name() const override { return "rendezvous"; }
  Address address() const override { return {}; }
  std::size_t slotBytes() const override { return network_.slot_bytes; }
  bool mapped() const override { return false; }
  bool reaches(const Address&) const override { return true; }
  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address&) override {
    auto port = std::make_unique<Port>();
    port->slot_bytes = network_.slot_bytes;
    port->depth = network_.depth;
    if (network_.mapped(id)) {
      auto& memory = network_.rings[id];
      const std::size_t bytes = SlotRing::bytesNeeded(network_.depth, network_.slot_bytes);
      if (!memory) {
        constexpr std::align_val_t kLine{64};
        memory = {::operator new(bytes, kLine), [](void* p) { ::operator delete(p, kLine); }};
        std::memset(memory.get(), 0, bytes);
      }
      port->path = MappedSlots{
          std::make_shared<SlotRing>(memory.get(), network_.depth, network_.slot_bytes, memory),
          network_.lending ? std::make_shared<Pointers>(id.src == network_.lost, network_.bodies)
                           : nullptr};
    } else if (id.src == rank_) {
      port->path = std::make_unique<Sender>(network_, network_.queues[id]);
    } else {
      port->path = std::make_unique<Receiver>(network_, network_.queues[id]);
    }
    struct Ready : PendingPort {
      std::unique_ptr<Port> port;
      std::unique_ptr<Port> poll() override { return std::move(port); }
    };
    auto ready = std::make_unique<Ready>();
    ready->port = std::move(port);
    return ready;
  }

 private:
  Network& network_;
  const int rank_;
  Looker looker_;
};

std::int32_t inputValue(int rank, std::size_t block, std::size_t i) {
  return static_cast<std::int32_t>(1 + static_cast<std::size_t>(rank) * 1009 + block * 10007 +
                                   i % 997);
}

/// The expected element i of block b of the rank's output.
std::int32_t expected(const plan::Spec& spec, int rank, std::size_t b, std::size_t i,
                      std::int32_t factor) {
  const detail::CollectiveTraits& of = traits(spec.collective);
  const detail::RankRange from =
      of.contributorsTo(rank, static_cast<int>(b), spec.root, spec.ranks);
  std::int32_t sum = 0;
  for (int r = from.first; r < from.end; ++r) sum += inputValue(r, of.input.own(rank), i);
  return of.reduces() ? factor * sum : sum;
}

/// One rank: a call's buffers and its engine.
class Rank {
 public:
  Rank(Network& network, int rank, int size)
      : rank_(rank), fabric_(make(network, rank, size)), engine_(*fabric_) {}

  void submit(const plan::Algorithm& algorithm, const plan::Spec& spec, std::size_t count,
              bool in_place, std::int32_t factor) {
    const std::size_t ins = plan::inputBlocks(spec, rank_), outs = plan::outputBlocks(spec, rank_);
    const auto me = static_cast<std::size_t>(rank_);
    input_.assign(ins * count, 0);
    output_.assign(outs * count, -1);
    std::int32_t* in = input_.data();
    out_ = output_.data();
    if (in_place && ins > 0 && outs > 0) { // the larger buffer holds both
      if (ins >= outs) out_ = in + (ins > outs ? me * count : 0);
      else in = out_ + me * count;
    }
    for (std::size_t b = 0; b < ins; ++b)
      for (std::size_t i = 0; i < count; ++i) in[b * count + i] = inputValue(rank_, b, i);
    const auto op = factor == 1 ? ReduceOp::Kind::sum : ReduceOp::Kind::premul_sum;
    bound_ = engine::bind(algorithm.build(spec, rank_), {count, DataType::int32, op}, *fabric_);
    run_ = std::make_unique<engine::Run>();
    run_->plan = &bound_;
    run_->input = reinterpret_cast<const std::byte*>(in);
    run_->output = reinterpret_cast<std::byte*>(out_);
    run_->signature = run_->sequence = ++sequence_;
    if (reduces(spec.collective)) run_->scaling.factor = factor;
    engine_.submit(*run_, engine::HostEngine::kCollectives);
  }
  bool progress() { return engine_.progress(); }
  void fail() { engine_.failAll(Error(ErrorCode::aborted, "the test ends it")); }
  bool done() const { return run_->done.load(); }
  const std::byte* input() const { return run_->input; }
  std::string position() { return done() ? "done" : engine_.position(*run_).text; }

  std::string wrong(const plan::Spec& spec, std::size_t count, std::int32_t factor) const {
    for (std::size_t b = 0; b < plan::outputBlocks(spec, rank_); ++b)
      for (std::size_t i = 0; i < count; ++i)
        if (out_[b * count + i] != expected(spec, rank_, b, i, factor))
          return "rank " + std::to_string(rank_) + " block " + std::to_string(b) + " element " +
                 std::to_string(i);
    return {};
  }

 private:
  static std::unique_ptr<engine::Fabric> make(Network& network, int rank, int size) {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(std::make_unique<Rendezvous>(network, rank));
    std::vector<engine::Fabric::Peer> peers(static_cast<std::size_t>(size));
    for (int r = 0; r < size; ++r)
      if (r != rank) peers[static_cast<std::size_t>(r)].transport = transports[0].get();
    return std::make_unique<engine::Fabric>(rank, 1, std::move(transports), std::move(peers),
                                            network.slot_bytes, true);
  }

  const int rank_;
  std::unique_ptr<engine::Fabric> fabric_;
  engine::HostEngine engine_;
  std::vector<std::int32_t> input_, output_;
  std::int32_t* out_ = nullptr;
  engine::BoundPlan bound_;
  std::unique_ptr<engine::Run> run_;
  std::uint64_t sequence_ = 0;
};

/// Runs the call on all ranks, which take turns in random order. Returns what went wrong, or an
/// empty string.
std::string runAll(Network& network, std::vector<std::unique_ptr<Rank>>& ranks,
                   const plan::Algorithm& algorithm, const plan::Spec& spec, std::size_t count,
                   bool in_place, std::int32_t factor, std::mt19937& random) {
  for (auto& rank : ranks) rank->submit(algorithm, spec, count, in_place, factor);
  std::vector<Rank*> order;
  for (auto& rank : ranks) order.push_back(rank.get());
  // A lender polls some hundred times for an unreturned loan before it revokes it.
  const int limit = network.lending ? 1000 : 3;
  for (int idle_rounds = 0; idle_rounds < limit;) {
    std::shuffle(order.begin(), order.end(), random);
    const std::size_t before = network.moved;
    bool moved = false, done = true;
    for (Rank* rank : order) {
      moved |= rank->progress();
      done &= rank->done();
    }
    if (done) {
      for (auto& rank : ranks)
        if (std::string wrong = rank->wrong(spec, count, factor); !wrong.empty())
          return "wrong: " + wrong;
      return {};
    }
    idle_rounds = moved || network.moved != before ? 0 : idle_rounds + 1;
  }
  std::string text = "deadlock:";
  for (auto& rank : ranks) text += "\n  " + rank->position();
  return text;
}

void allAlgorithms(Network::Sharing sharing, bool lending, int depth,
                   Network::Bodies bodies = Network::Bodies::mapped) {
  std::mt19937 random(7);
  for (int size : {2, 3, 4, 5, 8}) {
    for (const plan::Algorithm* algorithm : plan::algorithms())
      for (Collective collective : kCollectives)
        for (int root : {0, size - 1}) {
          const plan::Spec spec{collective, size, root, 0};
          if (collective == Collective::sendrecv || !algorithm->supports(spec)) continue;
          if (root > 0 && !hasRoot(collective)) continue;
          Network network;
          network.depth = depth;
          network.sharing = sharing;
          network.lending = lending;
          network.bodies = bodies;
          std::vector<std::unique_ptr<Rank>> ranks;
          for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<Rank>(network, r, size));
          for (std::size_t count : {0, 1, 7, 251, 2003})
            for (bool in_place : {false, true})
              for (std::int32_t factor : {1, 3}) {
                if (in_place && !traits(collective).in_place) continue;
                if (count > 0 && collective == Collective::barrier) continue;
                if (factor > 1 && !reduces(collective)) continue;
                INFO(algorithm->name << " for " << name(collective) << ", " << size
                                     << " ranks, root " << root << ", " << count << " elements"
                                     << (in_place ? ", in place" : "") << ", factor " << factor
                                     << ", depth " << depth);
                CHECK(runAll(network, ranks, *algorithm, spec, count, in_place, factor, random) ==
                      "");
              }
        }
  }
}

} // namespace

TEST_CASE("every algorithm ends with the right result over an unbuffered network") {
  for (int depth : {1, 2, 8}) allAlgorithms(Network::Sharing::none, false, depth);
}

// Proves: the engine calls a transport's worker once in each turn for all its channels, and only if
// there are channels.
TEST_CASE("a transport's worker is called once in a turn of the engine") {
  std::mt19937 random(7);
  const plan::Algorithm& direct = *plan::findAlgorithm("direct");
  const plan::Spec spec{Collective::alltoall, 4, 0, 0};
  Network network;
  network.worked = true;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(std::make_unique<Rank>(network, r, 4));
  for (auto& rank : ranks) rank->progress();
  CHECK(network.looks == 0);
  CHECK(runAll(network, ranks, direct, spec, 251, false, 1, random) == "");
  const std::size_t before = network.looks;
  CHECK(before > 0);
  for (auto& rank : ranks) rank->progress();
  CHECK(network.looks == before + ranks.size());
}

// Proves: one turn sends everything that needs no peer, and receives everything that has arrived.
// Peers do not wait for this rank's poll.
TEST_CASE("a turn of the engine sends, calls the worker, and receives what it has found") {
  std::mt19937 random(7);
  const plan::Algorithm& direct = *plan::findAlgorithm("direct");
  const plan::Spec spec{Collective::allgather, 2, 0, 0};
  Network network;
  network.worked = true;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(std::make_unique<Rank>(network, r, 2));
  REQUIRE(runAll(network, ranks, direct, spec, 7, false, 1, random) == ""); // connected
  for (auto& rank : ranks) rank->submit(direct, spec, 7, false, 1);
  ranks[0]->progress();
  CHECK(network.sent == 1);
  ranks[1]->progress();
  CHECK(network.sent == 1);
  CHECK(network.onTheWay(0) == 0);
}

TEST_CASE("every algorithm ends with the right result over a network and shared memory") {
  for (int depth : {1, 3}) allAlgorithms(Network::Sharing::mixed, false, depth);
}

TEST_CASE(
    "every algorithm ends with the right result when messages are lent, over a network or not") {
  for (int depth : {1, 3}) {
    allAlgorithms(Network::Sharing::all, true, depth);
    allAlgorithms(Network::Sharing::mixed, true, depth);
  }
}

// Proves: lent bodies that are not mapped arrive whole, whatever the step does with them. This also
// holds if a rank cannot copy a part, and if the receiver cannot read a body, so that the sender
// copies it to its slot.
TEST_CASE("every algorithm ends with the right result when lent messages are not mapped") {
  for (int depth : {1, 3})
    for (const auto bodies :
         {Network::Bodies::shared, Network::Bodies::unwritable, Network::Bodies::refused})
      allAlgorithms(Network::Sharing::all, true, depth, bodies);
}

namespace {

/// A broadcast of four messages along a chain of three ranks. Rank 1 has passed on the first
/// message and shares the next two with rank 0. It cannot go on, because its channel to rank 2 is
/// full: rank 2 has begun neither this call nor the two calls before it.
struct LateRank {
  static constexpr std::size_t kSmall = 251, kLarge = 4 * 256;

  LateRank() {
    network.depth = 3;
    network.sharing = Network::Sharing::all;
    network.lending = true;
    network.bodies = Network::Bodies::shared;
    for (int r = 0; r < 3; ++r) ranks.push_back(std::make_unique<Rank>(network, r, 3));
    REQUIRE(runAll(network, ranks, chain, spec, 7, false, 1, random) == ""); // connected
    for (int call = 0; call < 2; ++call) {
      for (Rank* rank : {ranks[0].get(), ranks[1].get()})
        rank->submit(chain, spec, kSmall, false, 1);
      REQUIRE(run({0, 1}));
    }
    for (Rank* rank : {ranks[0].get(), ranks[1].get()}) rank->submit(chain, spec, kLarge, false, 1);
    ranks[0]->progress();
    ranks[1]->progress();
  }
  /// Lets these ranks run in turn. Returns whether all their calls have ended.
  bool run(const std::vector<std::size_t>& some) {
    for (int turn = 0; turn < 3000; ++turn) {
      bool done = true;
      for (const std::size_t r : some) {
        ranks[r]->progress();
        done &= ranks[r]->done();
      }
      if (done) return true;
    }
    return false;
  }

  std::mt19937 random{7};
  const plan::Algorithm& chain = *plan::findAlgorithm("chain");
  const plan::Spec spec{Collective::broadcast, 3, 0, 0};
  Network network;
  std::vector<std::unique_ptr<Rank>> ranks;
};

} // namespace

// Proves: if a rank that shares a message waits for a third rank, the sender's call still ends: the
// sender copies the whole body itself.
TEST_CASE("the root of a broadcast does not wait for a rank that waits for a late rank") {
  LateRank late;
  CHECK(late.run({0}));
  CHECK_FALSE(late.ranks[1]->done());
  for (int call = 0; call < 2; ++call) {
    late.ranks[2]->submit(late.chain, late.spec, LateRank::kSmall, false, 1);
    REQUIRE(late.run({2}));
    CHECK(late.ranks[2]->wrong(late.spec, LateRank::kSmall, 1) == "");
  }
  late.ranks[2]->submit(late.chain, late.spec, LateRank::kLarge, false, 1);
  REQUIRE(late.run({1, 2}));
  CHECK(late.ranks[2]->wrong(late.spec, LateRank::kLarge, 1) == "");
  CHECK(late.ranks[1]->wrong(late.spec, LateRank::kLarge, 1) == "");
}

// Proves: a call that fails does not end while a peer copies to its memory, and no copy begins
// after that.
TEST_CASE("a failed call waits for the end of a copy to its memory") {
  LateRank late;
  const auto found = late.network.rings.find(ChannelId{1, 0, 1, 0});
  REQUIRE(found != late.network.rings.end());
  const auto& memory = found->second;
  SlotRing ring(memory.get(), late.network.depth, late.network.slot_bytes, memory);
  // The positions of the second and third message. Each message takes two positions, also in the
  // calls before.
  constexpr std::uint64_t kSecond = 9, kThird = 11;
  const std::size_t bytes = 256 * sizeof(std::int32_t);
  REQUIRE(ring.takePart(kSecond, bytes));
  std::atomic<bool> ended{false};
  std::thread failing([&] {
    late.ranks[1]->fail();
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(ended);
  CHECK_FALSE(late.ranks[1]->done());
  ring.finishPart(kSecond, true);
  failing.join();
  CHECK(late.ranks[1]->done());
  CHECK_FALSE(ring.takePart(kThird, bytes));
}

// Proves: before a failed call ends, the transport's worker leaves its memory alone.
TEST_CASE("a failed call takes its memory from the transport's worker") {
  Network network;
  network.worked = true;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(std::make_unique<Rank>(network, r, 2));
  const plan::Spec spec{Collective::broadcast, 2, 0, 0};
  for (auto& rank : ranks) rank->submit(*plan::findAlgorithm("chain"), spec, 251, false, 1);
  ranks[0]->progress();
  CHECK(network.abandoned == -1);
  for (int r = 0; r < 2; ++r) {
    ranks[static_cast<std::size_t>(r)]->progress();
    ranks[static_cast<std::size_t>(r)]->fail();
    CHECK(network.abandoned == r);
  }
}

// Proves: a step that sends its input and also copies it lends the input itself, before the copy.
TEST_CASE("the root of a broadcast lends its input") {
  const plan::Algorithm& chain = *plan::findAlgorithm("chain");
  const plan::Spec spec{Collective::broadcast, 2, 0, 0};
  Network network;
  network.sharing = Network::Sharing::all;
  network.lending = true;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(std::make_unique<Rank>(network, r, 2));
  for (auto& rank : ranks) rank->submit(chain, spec, 251, false, 1);
  const auto sent = [&]() -> const std::byte* {
    const auto found = network.rings.find({1, 0, 1, 0});
    if (found == network.rings.end()) return nullptr;
    SlotRing ring(found->second.get(), network.depth, network.slot_bytes, found->second);
    if (!ring.readable()) return nullptr;
    Pointers reader(false);
    const std::byte* const body = ring.readBody(251 * sizeof(std::int32_t), &reader);
    ring.giveBack();
    return body;
  };
  for (int turn = 0; turn < 10 && !sent(); ++turn)
    for (const std::size_t r : {1, 0}) ranks[r]->progress();
  CHECK(sent() == ranks[0]->input());
  for (auto& rank : ranks) rank->fail();
}

// Proves: a rank that cannot read one of a step's messages gives back the others that it has begun
// to read. So the ranks that lent them do not wait for it when they fail.
TEST_CASE("messages that a step began to read are given back if another one is not found") {
  const plan::Algorithm& linear = *plan::findAlgorithm("linear");
  const plan::Spec spec{Collective::reduce, 3, 0, 0};
  Network network;
  network.sharing = Network::Sharing::all;
  network.lending = true;
  network.lost = 2;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(std::make_unique<Rank>(network, r, 3));
  for (auto& rank : ranks) rank->submit(linear, spec, 251, false, 1);
  CHECK_THROWS_AS(
      [&] {
        for (int turn = 0; turn < 10; ++turn)
          for (int r : {1, 2, 0}) ranks[static_cast<std::size_t>(r)]->progress();
      }(),
      Error);
  const auto begin = base::Clock::now();
  for (auto& rank : ranks) rank->fail();
  // otherwise a lender would have waited for its limit
  CHECK(base::Clock::now() - begin < std::chrono::seconds(5));
}

// Proves: a lender does not wait forever for a thread that never finishes reading.
TEST_CASE("the wait for a reader that never finishes has a limit") {
  const plan::Algorithm& linear = *plan::findAlgorithm("linear");
  const plan::Spec spec{Collective::reduce, 2, 0, 0};
  Network network;
  network.sharing = Network::Sharing::all;
  network.lending = true;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(std::make_unique<Rank>(network, r, 2));
  for (auto& rank : ranks) rank->submit(linear, spec, 251, false, 1);
  while (ranks[1]->progress()) continue;
  const auto found = std::find_if(network.rings.begin(), network.rings.end(),
                                  [](const auto& entry) { return entry.first.src == 1; });
  REQUIRE(found != network.rings.end());
  const auto& memory = found->second;
  SlotRing ring(memory.get(), network.depth, network.slot_bytes, memory);
  REQUIRE(ring.readable());
  Pointers reader(false);
  REQUIRE(ring.readBody(251 * sizeof(std::int32_t), &reader));
  ranks[1]->fail();
  CHECK(ranks[1]->done());
}

} // namespace rondo::test
