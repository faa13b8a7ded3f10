// Tests the control plane's wire form (round trips, truncation, tampering, replay) and the
// heartbeat's clock.
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <random>
#include <set>

#include "bootstrap/frames.h"
#include "bootstrap/heartbeat.h"
#include "bootstrap/ledger.h"
#include "bootstrap/link.h"
#include "bootstrap/standby.h"
#include "ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace bootstrap;
using namespace std::chrono_literals;

template <class Body>
std::vector<std::byte> written(const Body& body) {
  base::Writer writer;
  body.write(writer);
  return writer.take();
}

/// Reads back to the same bytes. A truncated body, or one with an extra byte, is an error.
template <class Body>
void checkForm(const std::string& what, const Body& body) {
  INFO(what);
  const auto bytes = written(body);
  CHECK(bytes.size() <= frames::kBodyBytes);
  const auto read = [](std::span<const std::byte> from) {
    base::Reader reader(from, "a test");
    const Body back = Body::read(reader);
    reader.finish();
    return back;
  };
  CHECK(written(read(bytes)) == bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Outcome cut = outcomeOf([&] { read(std::span(bytes).first(size)); });
    if (cut.ok || cut.code != ErrorCode::transport) FAIL("cut to " << size);
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(outcomeOf([&] { read(longer); }).code == ErrorCode::transport);
}

/// Whatever the bytes are, reading returns a value or throws Error(transport).
template <class Body>
void checkGarbage(std::mt19937& random) {
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes(random() % 64);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random() % (i % 2 == 0 ? 4 : 256));
    base::Reader reader(bytes, "a test");
    const Outcome outcome = outcomeOf([&] { Body::read(reader); });
    if (!outcome.ok && outcome.code != ErrorCode::transport) FAIL(outcome.text);
  }
}

} // namespace

TEST_CASE("every frame's body reads back, and a truncated one is an error") {
  const Failure failure{ErrorCode::timeout, "late", 3};
  const Stall stall{412, 2, "AllReduce #412 (float sum): lane 0"};
  net::Secret secret = net::Secret::random();
  checkForm("join", frames::Join{250, true});
  checkForm("welcome", frames::Welcome{-1, 5, secret});
  checkForm("refused", frames::Refused{"no"});
  checkForm("gather", frames::Gather{1, 2, true, bytesOf("blob")});
  checkForm("gather, empty", frames::Gather{1, 2, false, {}});
  checkForm("gathered", frames::Gathered{1, 2, 3, {bytesOf("a"), {}, bytesOf("ccc")}});
  checkForm("fail", frames::Fail{1, failure, {}, {}});
  checkForm("fail with stall", frames::Fail{1, failure, stall, {}});
  checkForm("fail with round", frames::Fail{1, failure, {}, 7});
  checkForm("failed", frames::Failed{1, failure});
  Failure mismatch = failure;
  mismatch.difference = CallDifference{4, 4, 1, 0, 8, 9};
  checkForm("failed with a difference", frames::Failed{1, mismatch});
  checkForm("ask", frames::Ask{8, 9});
  checkForm("beat", frames::Beat{7});
  checkForm("left", frames::Left{7});
  checkForm("succeed", frames::Succeed{{true, false, true, true, false, false, true, true, true},
                                       {{99, 3, {7, 6}}, {98, 0, {1, 1}}}});
  checkForm("succeeded", frames::Succeeded{net::SocketAddress::parse("127.0.0.1:80", "")});
  checkForm("not succeeded", frames::Succeeded{});
  checkForm("moved", frames::Moved{3, net::SocketAddress::parse("[::1]:80", "")});
  checkForm("roster", frames::Roster{1, 3, 1, {4, 2}});
  checkForm("young roster", frames::Roster{1, 3, 1, {4, 2}, frames::Opening::young, true});
  checkForm("shrink", frames::Shrink{1, 2, {true, false, true}});
  const auto address = net::SocketAddress::parse("127.0.0.1:80", "");
  checkForm("join with a standby", frames::Join{250, true, false, 3, address});
  checkForm("refused with a code", frames::Refused{"no", ErrorCode::unresponsive, 3});
  checkForm("present", frames::Present{4, 1, {true, false, true}, {false, false, true}});
  checkForm("standbys", frames::Standbys{false, true, {{2, address}, {5, address}}});
  checkForm("agree", frames::Agree{7});
  checkForm("agreed", frames::Agreed{{1, 2, {true, false}}, {}});
  checkForm("not agreed", frames::Agreed{{1, 2, {true, false}}, failure});
  CallReport calls{5, {}};
  calls.scales[0] = {3, {10, 11, 12}};
  calls.scales[2] = {0, {13}};
  checkForm("progress", frames::ProgressReport{1, 2, {{3, 4, {}}, {5, 6, calls}}});
  checkForm("stalled", frames::Stalled{1, stall});
  checkForm("leave", frames::Leave{{1, 2, calls}});
}

TEST_CASE("random bytes give a value or a typed error") {
  std::mt19937 random(11);
  checkGarbage<frames::Join>(random);
  checkGarbage<frames::Present>(random);
  checkGarbage<frames::Standbys>(random);
  checkGarbage<frames::Agree>(random);
  checkGarbage<frames::Agreed>(random);
  checkGarbage<frames::Welcome>(random);
  checkGarbage<frames::Refused>(random);
  checkGarbage<frames::Gather>(random);
  checkGarbage<frames::Gathered>(random);
  checkGarbage<frames::Fail>(random);
  checkGarbage<frames::Failed>(random);
  checkGarbage<frames::Ask>(random);
  checkGarbage<frames::Beat>(random);
  checkGarbage<frames::Left>(random);
  checkGarbage<frames::Succeed>(random);
  checkGarbage<frames::Succeeded>(random);
  checkGarbage<frames::Moved>(random);
  checkGarbage<frames::Roster>(random);
  checkGarbage<frames::Shrink>(random);
  checkGarbage<frames::ProgressReport>(random);
  checkGarbage<frames::Stalled>(random);
  checkGarbage<frames::Leave>(random);
}

TEST_CASE("the largest texts and reports fit a frame") {
  const std::string text(100'000, 'x');
  const Failure failure{ErrorCode::timeout, text, 0};
  const Stall stall{1, 0, text};
  CHECK(written(frames::Fail{1, failure, stall, 1}).size() <= frames::kBodyBytes);
  CHECK(written(frames::Refused{text}).size() <= frames::kBodyBytes);
}

TEST_CASE("reports are cut into parts that fit a frame, and the last one answers") {
  CallLog log;
  for (std::uint64_t call = 1; call <= 300'000; ++call) log.enter(call, call);
  for (const std::size_t boards : {0, 1, 39, 1000}) {
    std::vector<frames::ProgressReport::Board> all;
    for (std::size_t i = 0; i < boards; ++i) all.push_back({i, 0, log.since(0)});
    std::size_t next = 0;
    const auto parts = frames::ProgressReport::parts(5, 6, all);
    for (const auto& part : parts) {
      CHECK(written(part).size() <= frames::kBodyBytes);
      CHECK(part.heard == 5);
      CHECK(part.answer_to == (&part == &parts.back() ? 6 : 0));
      for (const auto& board : part.boards) CHECK(board.communicator == next++);
    }
    CHECK(next == boards);
  }
}

TEST_CASE("the ranks of communicators are sent in parts that fit a frame") {
  for (const int size : {1, 16'000, 65'536}) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) ranks[static_cast<std::size_t>(rank)] = size - rank;
    std::vector<int> back;
    for (const auto& part : frames::Roster::parts(1, ranks, frames::Opening::started, true)) {
      CHECK(written(part).size() <= frames::kBodyBytes);
      CHECK(part.size == ranks.size());
      CHECK(part.first == back.size());
      back.insert(back.end(), part.ranks.begin(), part.ranks.end());
    }
    CHECK(back == ranks);
  }
}

TEST_CASE("an impossible report of calls is refused") {
  const auto refused = [](const CallReport& report) {
    const auto bytes = written(report);
    base::Reader reader(bytes, "a test");
    return outcomeOf([&] { CallReport::read(reader); }).code == ErrorCode::transport;
  };
  CallReport report{10, {}};
  report.scales[0] = {10, {1}};
  CHECK_FALSE(refused(report));
  report.scales[0] = {10, {1, 2}};
  CHECK(refused(report)); // after the last call
  report.scales[0] = {11, {1}};
  CHECK(refused(report));
  report = {~std::uint64_t{0}, {}};
  report.scales[1] = {~std::uint64_t{0}, {1, 2}};
  CHECK(refused(report)); // beyond the largest number
  report.scales[1] = {0, std::vector<std::uint64_t>(65)};
  CHECK(refused(report));
}

TEST_CASE("exchanges are cut into parts that fit a frame") {
  for (const std::size_t ranks : {1, 3, 4, 5, 100, 5000})
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{300}, kBlobBytes}) {
      if (ranks * bytes > 8'000'000) continue;
      const Blobs blobs(ranks, std::vector<std::byte>(bytes));
      std::size_t next = 0;
      for (const auto& part : frames::Gathered::parts(1, 2, blobs)) {
        CHECK(part.first == next);
        CHECK_FALSE(part.blobs.empty());
        CHECK(written(part).size() <= frames::kBodyBytes);
        next += part.blobs.size();
      }
      CHECK(next == ranks);
    }
}

namespace {

std::pair<base::UniqueFd, base::UniqueFd> socketPair() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  return {base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

/// A body of so many bytes.
struct Filler {
  std::size_t bytes;
  void write(base::Writer& out) const { out.raw(std::vector<std::byte>(bytes)); }
};

/// The bytes of three authentic frames of a member, `ask 1`, `ask 2`, `ask 3`.
std::vector<std::byte> threeFrames(const net::Key& key) {
  const auto loop = net::EventLoop::get();
  auto ends = socketPair();
  std::shared_ptr<Link> link;
  loop->call([&] {
    link = Link::open(loop, std::move(ends.second), key, Link::Side::member, {});
    for (const std::uint64_t number : {1, 2, 3})
      link->send(frames::Type::ask, frames::Ask{number, 0});
    link.reset();
  });
  std::vector<std::byte> bytes(4096);
  const ssize_t size = ::recv(ends.first.get(), bytes.data(), bytes.size(), 0);
  REQUIRE(size > 0);
  bytes.resize(static_cast<std::size_t>(size));
  return bytes;
}

struct Heard {
  std::vector<std::uint64_t> asks;
  std::string closed;
};

/// What a hub's link receives if the bytes arrive in pieces of `piece`, followed by the end.
Heard hear(const net::Key& key, const std::vector<std::byte>& bytes, std::size_t piece) {
  const auto loop = net::EventLoop::get();
  auto ends = socketPair();
  Heard heard;
  std::atomic<bool> closed{false};
  std::shared_ptr<Link> link;
  loop->call([&] {
    link = Link::open(loop, std::move(ends.second), key, Link::Side::hub,
                      {[&](frames::Type, base::Reader& in) {
                         heard.asks.push_back(frames::Ask::read(in).number);
                       },
                       [&](const std::string& why) {
                         heard.closed = why;
                         closed = true;
                       }});
  });
  for (std::size_t at = 0; at < bytes.size() && !closed; at += piece) {
    const std::size_t size = std::min(piece, bytes.size() - at);
    if (::send(ends.first.get(), bytes.data() + at, size, MSG_NOSIGNAL) < 0) break;
  }
  ends.first.reset();
  for (int i = 0; i < 5000 && !closed; ++i) std::this_thread::sleep_for(1ms);
  loop->call([&] { link.reset(); });
  return heard;
}

/// Sends more frames than the socket takes, closes the link, and returns the other end. `bytes`:
/// how many were sent.
base::UniqueFd closeWhileFull(std::size_t& bytes) {
  const auto loop = net::EventLoop::get();
  auto ends = socketPair();
  loop->call([&] {
    const auto link = Link::open(loop, std::move(ends.second), {}, Link::Side::hub, {});
    for (bytes = 0; bytes < 2'000'000; bytes += frames::kFrameBytes / 2) {
      constexpr std::size_t kHead = 4 + 2 + 32;
      link->send(frames::Type::gather, Filler{frames::kFrameBytes / 2 - kHead});
    }
    link->close();
  });
  return std::move(ends.first);
}

/// The number of bytes up to the end of the connection.
std::size_t readToEnd(const base::UniqueFd& fd) {
  std::vector<std::byte> some(100'000);
  for (std::size_t all = 0;;) {
    pollfd wait{fd.get(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, 20'000) == 1);
    const ssize_t count = ::recv(fd.get(), some.data(), some.size(), 0);
    if (count <= 0) return all;
    all += static_cast<std::size_t>(count);
  }
}

} // namespace

// Proves: the memory for frames has a bound, also if the peer sends nothing either.
TEST_CASE("a link to a peer that does not read ends") {
  const auto loop = net::EventLoop::get();
  auto ends = socketPair();
  std::shared_ptr<Link> link;
  std::promise<std::string> closed;
  loop->call([&] {
    link = Link::open(loop, std::move(ends.second), {}, Link::Side::hub,
                      {{}, [&](const std::string& why) { closed.set_value(why); }});
    for (int i = 0; i < 3000; ++i)
      link->send(frames::Type::gather, Filler{frames::kFrameBytes / 2});
  });
  auto why = closed.get_future();
  REQUIRE(why.wait_for(20s) == std::future_status::ready);
  CHECK(why.get() == "it does not read its control connection");
  loop->call([&] { link.reset(); });
}

// Proves: a hub's last frames, such as the address of the next hub, are not lost on a slow rank.
TEST_CASE("what was sent before a link was closed arrives, also if the peer reads slowly") {
  std::size_t bytes = 0;
  const base::UniqueFd fd = closeWhileFull(bytes);
  CHECK(readToEnd(fd) == bytes);
  Link::awaitParted();
}

// Proves: a peer that does not read keeps no process from ending.
TEST_CASE("a closed link gives up a peer that does not read") {
  std::size_t bytes = 0;
  const base::UniqueFd fd = closeWhileFull(bytes);
  Link::awaitParted();
  CHECK(readToEnd(fd) < bytes);
}

TEST_CASE("frames arrive whole for any pieces, and tampered frames do not arrive") {
  const net::Key key = net::Secret::random().bytes;
  const std::vector<std::byte> bytes = threeFrames(key);
  const std::size_t one = bytes.size() / 3;
  const std::vector<std::uint64_t> all = {1, 2, 3};
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, one, one + 1, bytes.size()})
    CHECK(hear(key, bytes, piece).asks == all);

  SECTION("cut at any byte") {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto heard =
          hear(key, {bytes.begin(), bytes.begin() + static_cast<long>(size)}, size + 1);
      if (heard.asks.size() != size / one || heard.closed.empty()) FAIL("cut to " << size);
    }
  }
  SECTION("one bit of the second frame flipped") {
    for (std::size_t at = one; at < 2 * one; ++at) {
      auto flipped = bytes;
      flipped[at] ^= std::byte{0x10};
      const auto heard = hear(key, flipped, bytes.size());
      if (heard.asks != std::vector<std::uint64_t>{1} || heard.closed.empty()) FAIL("byte " << at);
    }
  }
  SECTION("replayed, dropped, exchanged, reflected, of another key") {
    const auto frame = [&](std::size_t i) {
      return std::vector(bytes.begin() + static_cast<long>(i * one),
                         bytes.begin() + static_cast<long>((i + 1) * one));
    };
    const auto joined = [&](std::initializer_list<std::size_t> order) {
      std::vector<std::byte> result;
      for (const std::size_t i : order)
        for (const std::byte b : frame(i)) result.push_back(b);
      return result;
    };
    for (const auto& order : {joined({0, 0}), joined({0, 2}), joined({0, 2, 1})}) {
      const auto heard = hear(key, order, order.size());
      CHECK(heard.asks == std::vector<std::uint64_t>{1});
      CHECK(heard.closed.find("not authentic") != std::string::npos);
    }
    CHECK(hear(net::Secret::random().bytes, bytes, bytes.size()).asks.empty());
  }
}

TEST_CASE("time in which the observer slept does not count as a peer's silence") {
  const auto start = base::Clock::now();
  Silence silence;
  silence.heard(start);
  CHECK_FALSE(silence.longerThan(3s, start + 3s));
  CHECK(silence.longerThan(3s, start + 3001ms));
  // The observer slept for ten seconds, which do not count.
  Gap gap;
  gap.expect(start + 1s);
  CHECK(gap.late(start + 11s) == 10s);
  CHECK(gap.late(start) == 0s);
  silence.forgive(gap.late(start + 11s), start + 11s);
  CHECK_FALSE(silence.longerThan(3s, start + 11s));
  CHECK(silence.longerThan(3s, start + 14s));
  // The silence never ends in the future.
  silence.forgive(1h, start + 12s);
  CHECK(silence.longerThan(3s, start + 16s));
  // Stopped for two heartbeats at the worst moment: just before a beat was due.
  for (const auto heartbeat : {30ms, 200ms, 1000ms, 7000ms})
    CHECK(beatPeriod(heartbeat) + 2 * heartbeat < silenceLimit(heartbeat));
}

TEST_CASE("lists of ranks read well") {
  CHECK(rankList({}) == "no rank");
  CHECK(rankList({3}) == "rank 3");
  CHECK(rankList({3, 5}) == "ranks 3 and 5");
  CHECK(rankList({3, 5, 7}) == "ranks 3, 5 and 7");
  std::vector<int> many(20);
  for (int i = 0; i < 20; ++i) many[static_cast<std::size_t>(i)] = i;
  CHECK(rankList(many) == "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 4 more");
}

TEST_CASE("a timeout names ranks that did not call, or else those that did not complete the call") {
  const Stall stall{5, 0, "Gather #5 (int8): lane 1"};
  const Failure failure{ErrorCode::timeout, "Gather #5 took too long; rank 0: lane 1", -1};
  Ledger ledger(4);
  for (int rank = 0; rank < 4; ++rank) ledger.setProgress(rank, {5, 4});
  CHECK(
      ledger.completeTimeout(failure, 0, stall).text ==
      "Gather #5 took too long: all ranks called it, ranks 1, 2 and 3 did not complete it either; "
      "rank 0: lane 1");
  ledger.setProgress(2, {6, 5});
  CHECK(ledger.completeTimeout(failure, 0, stall).text ==
        "Gather #5 took too long: all ranks called it, ranks 1 and 3 did not complete it either; "
        "rank 0: lane 1");
  for (const int rank : {1, 3}) ledger.setProgress(rank, {4, 4});
  const Failure late = ledger.completeTimeout(failure, 0, stall);
  CHECK(late.text == "Gather #5 took too long: ranks 1 and 3 did not call it; rank 0: lane 1");
  CHECK(late.culprit == 1);
  // A Send or Recv has no number, and a timeout without a call has nothing to compare.
  CHECK(ledger.completeTimeout(failure, 0, Stall{0, 0, "Send"}).text == failure.text);
  CHECK(ledger.completeTimeout(failure, 0, {}).text == failure.text);
}

// Proves: a hub accuses no rank that left before the hub moved, since it may have entered the call.
TEST_CASE("a rank that left without a report to this hub is not accused") {
  const Stall stall{5, 1, "Gather #5 (int8): lane 1"};
  const Failure failure{ErrorCode::timeout, "Gather #5 took too long; rank 0: lane 1", 1};
  Ledger ledger(3);
  for (const int rank : {0, 2}) ledger.setProgress(rank, {5, 4});
  CHECK_FALSE(ledger.stalled(0, stall));
  CHECK_FALSE(ledger.leave(1));
  CHECK_FALSE(ledger.stalled(0, stall));
  const Failure late = ledger.completeTimeout(failure, 0, stall);
  CHECK(late.text ==
        "Gather #5 took too long: rank 1 left, and may not have called it; rank 0: lane 1");
  CHECK(late.culprit == 1); // as the reporter says
  ledger.setProgress(2, {4, 4});
  CHECK(ledger.completeTimeout(failure, 0, stall).culprit == 2);
}

// Proves: an exchange fails at once if a rank has left that it waits for, and only then.
TEST_CASE("an exchange waits for no rank that has left") {
  for (const bool came : {false, true}) {
    Ledger ledger(3);
    const auto round = ledger.round(0);
    if (came) round->contribute(2, false, {});
    ledger.leave(2);
    const auto failure = ledger.contributing(0, *round, false);
    CHECK(failure.has_value() != came);
    if (failure) CHECK(failure->culprit == 2);
  }
}

TEST_CASE("ids of communicators do not collide") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t parent = 1; parent < 40; ++parent)
    for (std::uint64_t index = 0; index < 20; ++index)
      for (int color = -1; color < 20; ++color)
        CHECK(seen.insert(childId(parent, index, color)).second);
}

// Proves: a job outlives the machine of its lowest ranks.
TEST_CASE("the ranks that may take the hub over are on as many machines as possible") {
  std::map<int, net::SocketAddress> listeners;
  for (int rank = 0; rank < 12; ++rank)
    listeners[rank] = net::SocketAddress::parse(
        "192.0.2." + std::to_string(1 + rank / 4) + ":" + std::to_string(1000 + rank), "");
  CHECK(chooseCandidates(listeners, 2) == std::set<int>{0, 4});
  CHECK(chooseCandidates(listeners, 3) == std::set<int>{0, 4, 8});
  CHECK(chooseCandidates(listeners, 6) == std::set<int>{0, 1, 2, 3, 4, 8});
  CHECK(chooseCandidates(listeners, 20).size() == 12);
  CHECK(chooseCandidates({}, 8).empty());
}

} // namespace rondo::test
