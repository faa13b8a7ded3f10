// Proves: a forked child drops its copies of sessions at once, whatever other threads of the parent
// were doing with them, and the parent's sessions go on.
#include "bootstrap/process_jobs.h"
#include "ranks.h"
#include "session_cases.h"
#include "support/forked_child.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

Options patientOptions() {
  Options options = quickOptions();
  options.heartbeat = 60s; // many children take a while on a small machine
  options.socket_interface = "lo";
  return options;
}

void childDropsSessions(const Meet& meet) {
  std::vector<SessionPtr> sessions(2);
  const auto at = [&](int rank) -> SessionPtr& { return sessions[static_cast<std::size_t>(rank)]; };
  REQUIRE(troubles(runRanks(2, [&](int rank) {
            at(rank) = bootstrap::Session::open(meet(rank), patientOptions());
          })) == "");
  {
    const Meanwhile busy([&] { sessions[0]->failure(); });
    CHECK(manyChildrenEnd([&] {
      sessions.clear();
      return 0;
    }));
  }
  // A child may be forked while a thread, which the child does not have, waits for another rank.
  bool dropped = false;
  CHECK(troubles(runRanks(2, [&](int rank) {
          if (rank == 1) {
            std::this_thread::sleep_for(100ms); // the other rank waits by now
            Child child([&] {
              sessions.clear();
              return 0;
            });
            dropped = child.end() == 0;
          }
          at(rank)->allGather({}, 30s);
        })) == "");
  CHECK(dropped);
  runRanks(2, [&](int rank) { at(rank).reset(); });
}

} // namespace

TEST_CASE("in process: a forked child drops its copies of sessions") {
  const Rendezvous group = Rendezvous::inProcess(2);
  childDropsSessions([&](int rank) { return group.as(rank); });
}

TEST_CASE("tcp: a forked child drops its copies of sessions") {
  const UniqueId id = UniqueId::create(patientOptions());
  childDropsSessions([&](int rank) { return Rendezvous::uniqueId(id, rank, 2); });
}

TEST_CASE("a forked child finds the table of jobs free while other threads use it") {
  const auto hostsNothing = [] {
    return !bootstrap::ProcessJobs::ofProcess().hubOf(1).has_value();
  };
  REQUIRE(hostsNothing()); // it is created before other threads use it
  const Meanwhile busy([&] { hostsNothing(); });
  CHECK(manyChildrenEnd([&] { return hostsNothing() ? 0 : 1; }));
}

#ifndef __SANITIZE_THREAD__ // its run time allows no new thread after such a fork
// Proves: a forked child, which lacks its parent's threads, does not use its parent's hub and
// listener, which no thread serves there.
TEST_CASE("a forked child makes its own hub and listener for a job of its parent") {
  auto& jobs = bootstrap::ProcessJobs::ofProcess();
  constexpr std::uint64_t kJob = 4712;
  const auto loopback = net::SocketAddress::parse("127.0.0.1:0", "");
  const net::Secret secret = net::Secret::random();
  const auto host = [&] {
    bootstrap::Hub::Settings hub;
    hub.address = loopback;
    hub.secret = secret;
    hub.job = kJob;
    hub.size = 2;
    return jobs.host(hub);
  };
  const auto listen = [&] { return jobs.standby({loopback, secret, kJob, 2}); };
  const auto hub = host();
  const auto standby = listen();
  REQUIRE(jobs.hubOf(kJob) == hub);
  REQUIRE(listen() == standby);
  Child child([&] {
    if (jobs.hubOf(kJob)) return 1;
    if (host() == hub) return 2;
    return listen()->address() == standby->address() ? 3 : 0;
  });
  CHECK(child.end() == 0);
  CHECK(jobs.hubOf(kJob) == hub);
  jobs.dismiss(kJob);
}
#endif

} // namespace rondo::test
