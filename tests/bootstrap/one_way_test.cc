// Tests links that lose one direction or both, or are reset: all ranks get the same failure.
#include "bootstrap/hub.h"
#include "bootstrap/membership.h"
#include "bootstrap/process_jobs.h"
#include "proxy.h"
#include "ranks.h"
#include "session_cases.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace bootstrap;
using namespace std::chrono_literals;

constexpr int kRanks = 3;

/// Three ranks. Rank 0 hosts the hub; rank 2 connects through a proxy. Returns each rank's outcome
/// after `trouble`.
std::vector<Outcome> endsAfter(const std::function<void(Proxy&, int rank, Session&)>& trouble,
                               std::chrono::milliseconds heartbeat = 300ms) {
  Hub::Settings settings;
  settings.address = net::SocketAddress::parse("127.0.0.1:0", "");
  settings.secret = net::Secret::random();
  settings.job = 4711;
  settings.size = kRanks;
  ProcessJobs& jobs = ProcessJobs::ofProcess();
  const net::SocketAddress hub = jobs.host(settings);
  Proxy proxy(hub);
  std::vector<Outcome> ends(kRanks);
  const auto outcomes = runRanks(kRanks, [&](int rank) {
    Membership::Settings member;
    member.hub = rank == 2 ? proxy.address() : hub;
    member.secret = settings.secret;
    member.job = settings.job;
    member.rank = rank;
    member.size = kRanks;
    member.deadline = base::Clock::now() + 20s;
    member.heartbeat = heartbeat;
    const SessionPtr session = Membership::join(member)->open(20s);
    session->allGather({}, 20s);
    trouble(proxy, rank, *session);
    expect(awaitFailure(*session, 20s), "the session fails");
    ends[static_cast<std::size_t>(rank)] = outcomeOf(session->failure());
  });
  jobs.dismiss(settings.job);
  CHECK(troubles(outcomes) == "");
  return ends;
}

} // namespace

TEST_CASE("a rank that does not hear the hub: all ranks blame the hub's host") {
  const auto ends = endsAfter([](Proxy& proxy, int rank, Session&) {
    if (rank == 2) proxy.loses_hub = true;
  });
  for (const Outcome& end : ends) {
    CHECK(end.code == ErrorCode::unresponsive);
    CHECK(end.culprit == 0);
    CHECK(end.text ==
          "rank 0, which hosts the control plane, does not respond: rank 2 heard no heartbeat for "
          "900 ms");
  }
}

TEST_CASE("a rank that the hub does not hear: all ranks blame that rank") {
  const auto ends = endsAfter([](Proxy& proxy, int rank, Session&) {
    if (rank == 2) proxy.loses_member = true;
  });
  for (const Outcome& end : ends) {
    CHECK(end.code == ErrorCode::unresponsive);
    CHECK(end.culprit == 2);
    CHECK(end.text ==
          "rank 2 does not respond: no heartbeat for 900 ms (it is stopped, its machine is "
          "overloaded, or the network loses its messages)");
  }
}

// Proves: a connection that is reset is noticed at once, not after three heartbeats: these ranks'
// heartbeat is longer than the test may take.
TEST_CASE("a control connection that is reset: all others name its rank, which names the host") {
  const auto ends = endsAfter(
      [](Proxy& proxy, int rank, Session&) {
        if (rank == 2) proxy.resets = true;
      },
      60s);
  for (const int rank : {0, 1, 2}) {
    const Outcome& end = ends[static_cast<std::size_t>(rank)];
    INFO("rank " << rank << ": " << end.text);
    CHECK(end.code == ErrorCode::peer_dead);
    CHECK(end.culprit == (rank == 2 ? 0 : 2));
  }
}

TEST_CASE("two ranks that lose each other: all ranks get an error that names the link") {
  const auto ends = endsAfter([](Proxy&, int rank, Session& session) {
    const int other = 3 - rank;
    if (rank > 0) session.fail({ErrorCode::peer_dead, "its peer does not answer", other});
  });
  for (const Outcome& end : ends) {
    CHECK(end.code == ErrorCode::transport);
    CHECK((end.culprit == 1 || end.culprit == 2));
    CHECK(end.text.find("the connection between rank 1 and rank 2 broke") == 0);
    CHECK(end.text == ends[0].text);
    CHECK(end.culprit == ends[0].culprit);
  }
}

// Proves: the hub asks a rank that another one calls silent, and believes its answer.
TEST_CASE("a rank that is called silent but answers the hub: the error names the link") {
  std::vector<Outcome> ends;
  // A rank that gets no processor time for 300 ms does not answer in time.
  for (int tries = 0; tries < 5 && (ends.empty() || ends[0].code != ErrorCode::transport); ++tries)
    ends = endsAfter([](Proxy&, int rank, Session& session) {
      if (rank == 1) session.fail({ErrorCode::unresponsive, "rank 2 does not respond", 2});
    });
  for (const Outcome& end : ends) {
    CHECK(end.code == ErrorCode::transport);
    CHECK(end.culprit == 2);
    CHECK(end.text.find("the connection between rank 1 and rank 2 broke") == 0);
  }
}

} // namespace rondo::test
