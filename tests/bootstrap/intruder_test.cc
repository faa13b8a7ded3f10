// Tests strangers and misbehaving members: they neither prevent a job's start nor break the job.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>

#include "base/codec.h"
#include "base/log.h"
#include "bootstrap/hub.h"
#include "bootstrap/membership.h"
#include "bootstrap/unique_id.h"
#include "net/native_address.h"
#include "proxy.h"
#include "ranks.h"
#include "raw_member.h"
#include "session_cases.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace bootstrap;
using namespace std::chrono_literals;

/// A hub with its own secret, and settings of its members.
struct Site {
  explicit Site(int size = 0) {
    // An address where ids of other cases keep no listener open.
    settings.address = net::SocketAddress::parse("127.0.0.2:0", "");
    settings.secret = net::Secret::random();
    settings.job = 4711;
    settings.size = size;
    hub = std::make_unique<Hub>(settings, [this] { over = true; });
  }

  Membership::Settings member(int rank, int size) const {
    Membership::Settings member;
    member.hub = hub->address();
    member.secret = settings.secret;
    member.job = settings.job;
    member.rank = rank;
    member.size = size;
    member.deadline = base::Clock::now() + 20s;
    member.heartbeat = 200ms;
    member.hub_process = "the test";
    return member;
  }

  Hub::Settings settings;
  std::atomic<bool> over{false};
  std::unique_ptr<Hub> hub;
};

base::UniqueFd connectTo(const net::SocketAddress& address) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const net::NativeAddress native = net::toNative(address);
  if (::connect(fd.get(), native.get(), native.length) != 0) fd.reset();
  return fd;
}

/// Runs a job of `size` ranks, which open, exchange and leave. Returns the ranks' errors.
std::string runJob(const Site& site, int size) {
  return troubles(runRanks(size, [&](int rank) {
    const auto membership = Membership::join(site.member(rank, size));
    const SessionPtr session = membership->open(20s);
    const auto mine = static_cast<std::byte>(rank);
    const auto all = session->allGather(std::span(&mine, 1), 20s);
    for (int r = 0; r < size; ++r)
      expect(all[static_cast<std::size_t>(r)] == std::vector{static_cast<std::byte>(r)}, "blobs");
  }));
}

} // namespace

TEST_CASE("a job starts during port scans, garbage and idle connections") {
  for (const int size : {2, 5}) {
    Site site(size);
    std::atomic<bool> stop{false};
    std::atomic<int> attempts{0};
    std::vector<base::UniqueFd> idle;
    for (int i = 0; i < 300; ++i) idle.push_back(connectTo(site.hub->address()));
    std::thread scan([&] {
      std::mt19937 random(7);
      while (!stop) {
        const base::UniqueFd fd = connectTo(site.hub->address());
        ++attempts;
        if (!fd) break; // the listener has closed
        std::vector<unsigned char> garbage(random() % 4000);
        for (auto& byte : garbage) byte = static_cast<unsigned char>(random());
        if (::send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) < 0) continue;
      }
    });
    while (attempts < 50) std::this_thread::sleep_for(1ms);
    CHECK(runJob(site, size) == "");
    stop = true;
    scan.join();
    CHECK(site.hub->rejected() > 0);
  }
}

TEST_CASE("a hub keeps at most as many half-open strangers as it has ranks, plus 64") {
  Site site(3);
  std::vector<base::UniqueFd> idle;
  for (int i = 0; i < 90; ++i) idle.push_back(connectTo(site.hub->address()));
  const base::Deadline deadline(20s);
  while (site.hub->rejected() < 90 - (3 + 64) && !deadline.passed())
    std::this_thread::sleep_for(1ms);
  // They were dropped for newer ones: none has been too slow yet.
  std::this_thread::sleep_for(200ms);
  std::byte byte{};
  CHECK(::recv(idle.back().get(), &byte, 1, MSG_DONTWAIT) == -1);
  CHECK(::recv(idle.front().get(), &byte, 1, MSG_DONTWAIT) == 0);
  CHECK(runJob(site, 3) == "");
}

TEST_CASE("the listener closes when all ranks have come") {
  Site site(2);
  const auto address = site.hub->address();
  const auto outcomes = runRanks(2, [&](int rank) {
    const auto membership = Membership::join(site.member(rank, 2));
    const SessionPtr session = membership->open(20s);
    expect(!connectTo(address), "no connection any more");
    session->allGather({}, 20s);
  });
  CHECK(troubles(outcomes) == "");
}

TEST_CASE("wrong secret, job, size, rank and duplicates are refused; the job is not affected") {
  Site site(3);
  std::vector<std::thread> ranks;
  std::vector<Outcome> outcomes(3);
  std::atomic<int> joined{0};
  const auto run = [&](int rank) {
    ranks.emplace_back([&, rank] {
      outcomes[static_cast<std::size_t>(rank)] = outcomeOf([&] {
        const auto membership = Membership::join(site.member(rank, 3));
        ++joined;
        const SessionPtr session = membership->open(20s);
        session->allGather({}, 20s);
        // A refused connection must not have broken anything.
        std::this_thread::sleep_for(50ms);
        expect(session->failedWord().load() == 0, "no failure");
        session->allGather({}, 20s);
      });
    });
  };
  run(0);
  run(1);
  // Rank 1 must have joined before its duplicate.
  for (int i = 0; i < 20'000 && joined < 2; ++i) std::this_thread::sleep_for(1ms);

  const auto refused = [&](Membership::Settings settings, const std::string& reason) {
    const Outcome outcome = outcomeOf([&] { Membership::join(settings)->open(5s); });
    INFO(reason << ": " << outcome.text);
    CHECK_FALSE(outcome.ok);
    CHECK(outcome.code == ErrorCode::init_failed);
    CHECK(outcome.text.find(reason) != std::string::npos);
  };
  Membership::Settings settings = site.member(2, 3);
  settings.secret = net::Secret::random();
  refused(settings, "secret");
  settings = site.member(2, 3);
  settings.job = 4712;
  refused(settings, "another job");
  refused(site.member(2, 4), "this job has 3 ranks");
  refused(site.member(1, 3), "joined already");
  settings = site.member(3, 3);
  settings.deadline = base::Clock::now() + 300ms; // not even an answer
  refused(settings, "timed out");

  run(2);
  for (auto& rank : ranks) rank.join();
  CHECK(troubles(outcomes) == "");
  CHECK(site.hub->rejected() >= 5);
}

// Proves: what a rank has sent to a hub with the same secret, job and size is of no use to another.
TEST_CASE("a recorded handshake that is replayed is refused; the job is not affected") {
  Site first(2), second(2);
  second.hub.reset();
  second.settings.secret = first.settings.secret;
  second.hub = std::make_unique<Hub>(second.settings, [] {});
  std::vector<char> recorded;
  {
    Proxy proxy(first.hub->address());
    const auto outcomes = runRanks(2, [&](int rank) {
      Membership::Settings member = first.member(rank, 2);
      if (rank == 1) member.hub = proxy.address();
      Membership::join(member)->open(20s)->allGather({}, 20s);
    });
    REQUIRE(troubles(outcomes) == "");
    proxy.stop();
    recorded = proxy.recorded;
  }
  REQUIRE(recorded.size() > 100); // hello, proof, join
  const base::UniqueFd replay = connectTo(second.hub->address());
  REQUIRE(::send(replay.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(recorded.size()));
  const base::Deadline deadline(20s);
  while (second.hub->rejected() == 0 && !deadline.passed()) std::this_thread::sleep_for(1ms);
  CHECK(second.hub->rejected() == 1);
  second.settings.secret = first.settings.secret;
  CHECK(runJob(second, 2) == "");
}

TEST_CASE("if the size is unknown, the first complete set of ranks makes the job") {
  Site site;
  // A rank with a wrong size joins first.
  const auto stranger = Membership::join(site.member(0, 4));
  Outcome wrong;
  std::thread first([&] { wrong = outcomeOf([&] { stranger->open(20s); }); });
  CHECK(runJob(site, 3) == "");
  first.join();
  CHECK(wrong.code == ErrorCode::init_failed);
  CHECK(wrong.text.find("this job has 3 ranks") != std::string::npos);
}

TEST_CASE("the hub ends when all ranks have left") {
  Site site;
  CHECK(runJob(site, 3) == "");
  for (int i = 0; i < 5000 && !site.over; ++i) std::this_thread::sleep_for(1ms);
  CHECK(site.over);
}

namespace {

std::vector<std::byte> repeated(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

using Crime = std::pair<std::string, std::function<void(RawMember&)>>;

/// A violation by a member that has joined.
template <class Next>
std::function<void(RawMember&)> joined(Next next) {
  return [next](RawMember& rogue) {
    rogue.join();
    next(rogue);
  };
}

/// Frames that are well-formed but false, or that the member must not send.
std::vector<Crime> lies(std::uint64_t world) {
  using frames::Type;
  return {
      {"a heartbeat outside the limits",
       [](RawMember& r) {
         r.frame(Type::join, frames::Join{9, false});
       }},
      {"calls that were not entered", joined([=](RawMember& r) {
         CallReport calls;
         calls.scales[0] = {1, {7}};
         r.frame(Type::progress, frames::ProgressReport{0, 0, {{world, 0, calls}}});
       })},
      {"taking over a hub that was not offered",
       joined([](RawMember& r) { r.frame(Type::succeeded, frames::Succeeded{}); })},
      {"telling of communicators unasked", joined([=](RawMember& r) {
         r.frame(Type::roster, frames::Roster{world, 2, 0, {0, 1}});
       })},
      {"settling unasked", joined([](RawMember& r) { r.frame(Type::settled, RawMember::Raw{}); })},
      {"a communicator that it would not be in", joined([=](RawMember& r) {
         r.frame(Type::shrink, frames::Shrink{world, 77, {true, false}});
       })},
  };
}

/// Violations by a member of a world.
std::vector<Crime> crimes(std::uint64_t world) {
  constexpr std::uint64_t kUnknown = 12345;
  using frames::Type;
  return {
      {"no length at all", [](RawMember& r) { r.bytes(repeated(4, 0)); }},
      {"a huge length", [](RawMember& r) { r.bytes(repeated(4, 0xff)); }},
      {"a frame without authenticity",
       [](RawMember& r) {
         std::vector<std::byte> bytes = repeated(46, 1);
         bytes[0] = std::byte{42};
         bytes[1] = bytes[2] = bytes[3] = std::byte{0};
         r.bytes(bytes);
       }},
      {"another frame before join", [](RawMember& r) { r.frame(Type::ask, frames::Ask{1}); }},
      {"a heartbeat of zero",
       [](RawMember& r) {
         r.frame(Type::join, frames::Join{0, false});
       }},
      {"joining twice", joined([](RawMember& r) { r.join(); })},
      {"an unknown type", joined([](RawMember& r) { r.frame(200, {}); })},
      {"type zero", joined([](RawMember& r) { r.frame(0, {}); })},
      {"a hub's frame", joined([](RawMember& r) { r.frame(Type::beat, RawMember::Raw{}); })},
      {"an empty body", joined([](RawMember& r) { r.frame(Type::gather, RawMember::Raw{}); })},
      {"bytes too many",
       joined([](RawMember& r) { r.frame(Type::bye, RawMember::Raw{repeated(1, 0)}); })},
      {"a blob too large", joined([=](RawMember& r) {
         r.frame(Type::gather, frames::Gather{world, 0, false, repeated(kBlobBytes + 1, 7)});
       })},
      {"one exchange twice", joined([=](RawMember& r) {
         for (int i = 0; i < 2; ++i) r.frame(Type::gather, frames::Gather{world, 3, false, {}});
       })},
      {"exchanges without end", joined([=](RawMember& r) {
         for (std::uint64_t i = 0; i < 300; ++i)
           r.frame(Type::gather, frames::Gather{world, 10 + i, false, {}});
       })},
      {"an unknown error code", joined([=](RawMember& r) {
         base::Writer writer;
         writer.u64(world);
         writer.u8(99);
         writer.raw(repeated(20, 0));
         r.frame(Type::fail, RawMember::Raw{writer.take()});
       })},
      {"a split without color and key", joined([=](RawMember& r) {
         r.frame(Type::gather, frames::Gather{world, 0, true, repeated(3, 1)});
       })},
      {"an unknown communicator, then the end", joined([](RawMember& r) {
         r.frame(Type::leave, frames::Leave{{kUnknown, 0, {}}});
         r.frame(200, {});
       })},
  };
}

} // namespace

TEST_CASE("a member that misbehaves counts as dead, and the other ranks get its error") {
  auto all = crimes(worldId(4711, 2));
  for (Crime& lie : lies(worldId(4711, 2))) all.push_back(std::move(lie));
  for (const auto& [crime, commit] : all) {
    INFO(crime);
    Site site(2);
    const auto rogue = std::make_unique<RawMember>(site.member(1, 2));
    Outcome end;
    std::thread honest([&] {
      end = outcomeOf([&] {
        const auto membership = Membership::join(site.member(0, 2));
        const SessionPtr session = membership->open(20s);
        expect(awaitFailure(*session, 20s), "the session fails");
        const Failure failure = session->failure();
        throw Error(failure.code, failure.text, failure.culprit);
      });
    });
    commit(*rogue);
    honest.join();
    CHECK_FALSE(end.ok);
    INFO(end.text);
    CHECK((end.code == ErrorCode::init_failed || end.code == ErrorCode::peer_dead));
    CHECK(end.culprit == 1);
  }
}

// The hub cannot tell a lie from what a rank has seen.
TEST_CASE("a member is believed: it can fail a communicator and blame a rank, and is named too") {
  Site site(3);
  std::vector<Failure> failures(3);
  const auto outcomes = runRanks(3, [&](int rank) {
    const auto membership = Membership::join(site.member(rank, 3));
    const SessionPtr session = membership->open(20s);
    if (rank == 2) session->fail({ErrorCode::transport, "a lie", 1});
    expect(awaitFailure(*session, 20s), "the session fails");
    failures[static_cast<std::size_t>(rank)] = session->failure();
  });
  CHECK(troubles(outcomes) == "");
  for (const Failure& failure : failures) {
    CHECK(failure.code == ErrorCode::transport);
    CHECK(failure.text.find("rank 2 reports: a lie") != std::string::npos);
    CHECK(failure.culprit == 1);
  }
}

TEST_CASE("a unique id with any damaged bit is refused") {
  IdContent content;
  content.job = 99;
  content.secret = net::Secret::random();
  content.hub = net::SocketAddress::parse("[::1]:1234", "");
  const UniqueId id = content.encode();
  const IdContent back = IdContent::decode(id);
  CHECK(back.job == 99);
  CHECK(back.secret.bytes == content.secret.bytes);
  CHECK(back.hub.text() == content.hub.text());
  for (std::size_t bit = 0; bit < 8 * id.bytes.size(); ++bit) {
    UniqueId damaged = id;
    damaged.bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const Outcome outcome = outcomeOf([&] { IdContent::decode(damaged); });
    if (outcome.ok || outcome.code != ErrorCode::invalid_argument) {
      INFO("bit " << bit);
      CHECK(outcome.code == ErrorCode::invalid_argument);
      FAIL();
    }
  }
  CHECK(outcomeOf([] {
          bootstrap::Session::open(Rendezvous::uniqueId({}, 0, 1), quickOptions());
        }).code == ErrorCode::invalid_argument);
}

// Proves: a rank that tries again, ten times a second, does not fill the log.
TEST_CASE("a hub warns once of each reason for a refusal") {
  const std::string path = "/tmp/rondo_intruder_test." + std::to_string(::getpid());
  base::configureLog(LogLevel::warn, path);
  {
    Site site(3);
    for (int i = 0; i < 6; ++i) {
      RawMember member(site.member(i % 2, 2));
      member.join();
      CHECK(member.heard(frames::Type::refused));
    }
  }
  base::configureLog(LogLevel::warn, "");
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);)
    lines += line.find("a rank was refused: ") != std::string::npos;
  ::unlink(path.c_str());
  CHECK(lines == 2);
}

} // namespace rondo::test
