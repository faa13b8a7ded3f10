// Tests a host of the control plane that leaves while the rank that should take over is stopped.
#include <signal.h>

#include "hand_over.h"

namespace rondo::test {

// Proves: a stopped successor does not end the supervision of the job. Another rank takes over, and
// the stopped one is named, not the host that left.
TEST_CASE("a host leaves while its successor is stopped: the others name the stopped rank") {
  for (const Host host : kHosts)
    for (const char* how : {"quit", "vanish"}) {
      INFO(text(host) << ", and ends by " << how);
      const int successor = successorOf(host);
      Job job(host, kSize, how, kRare);
      job.startAll();
      job.at(successor).signal(SIGSTOP);
      std::this_thread::sleep_for(200ms);
      if (host == Host::launcher) job.endLaunch();
      else job.at(0).tell("go");
      for (const int rank : othersOf(host)) {
        const std::string line = job.at(rank).line(20s);
        INFO("rank " << rank << " says: " << line);
        const std::string who = std::to_string(successor);
        CHECK(startsWith(line, "failed unresponsive " + who + " rank " + who));
      }
    }
}

// Proves: the rank that took over serves: it makes communicators, and notices a later death.
TEST_CASE("a host leaves while its successor is stopped: the others shrink, and shrink again") {
  for (const Host host : kHosts) {
    INFO(text(host));
    Job job(host, kSize, "agree", kUsual);
    job.startAll();
    leaveWhileStopped(job, host, {successorOf(host)});
    std::vector<int> others = othersOf(host);
    agree(job, others);
    job.at(others.back()).signal(SIGKILL);
    others.pop_back();
    agree(job, others);
  }
}

// Proves: a successor that answers too late, but soon enough to follow, is a member as before.
TEST_CASE("a stopped successor that continues in time follows the rank that took over") {
  for (const Host host : kHosts) {
    INFO(text(host));
    Job job(host, kSize, "quit", kRare);
    job.startAll();
    const int successor = successorOf(host);
    leaveWhileStopped(job, host, {successor});
    job.at(successor).signal(SIGCONT);
    CHECK(job.at(successor).line(500ms) == "");
    const int victim = kSize - 1;
    job.at(victim).signal(SIGKILL);
    for (int rank = successor; rank < victim; ++rank) {
      const std::string line = job.at(rank).line(20s);
      INFO("rank " << rank << " says: " << line);
      const std::string who = std::to_string(victim);
      CHECK(startsWith(line, "failed peer_dead " + who + " rank " + who));
    }
  }
}

// Proves: a successor that continues after the others have excluded it does not go on alone, and
// does not disturb them.
TEST_CASE("a stopped successor that continues too late is told that the others go on") {
  for (const Host host : kHosts)
    for (const auto& [ended, heartbeat] :
         {std::pair(false, kUsual), std::pair(true, kUsual), std::pair(true, kRare)}) {
      INFO(text(host) << (ended ? ", the others have ended, heartbeat " : ", heartbeat ")
                      << heartbeat.at("RONDO_HEARTBEAT"));
      Job job(host, kSize, "agree", heartbeat);
      job.startAll();
      const int successor = successorOf(host);
      leaveWhileStopped(job, host, {successor});
      const std::vector<int> others = othersOf(host);
      agree(job, others);
      if (ended)
        for (const int rank : others) {
          job.at(rank).hangUp();
          CHECK(job.at(rank).end().value_or(-1) == 0);
        }
      job.at(successor).signal(SIGCONT);
      job.at(successor).tell("go");
      const std::string line = job.at(successor).line();
      INFO("the successor says: " << line);
      CHECK(startsWith(line, "error unresponsive"));
      CHECK(line.find(ended ? "may have continued without" : "the other ranks") !=
            std::string::npos);
      if (!ended) agree(job, others);
    }
}

// Proves: RONDO_PATIENT holds after a hand-over, for a rank that is stopped longer than a new hub
// waits otherwise. If it is killed instead, the others name it.
TEST_CASE("a patient job's host leaves while a rank is stopped: the new host waits for it") {
  for (const bool killed : {false, true}) {
    INFO((killed ? "killed" : "continued"));
    const Log log;
    auto patient = log.in(kUsual);
    patient["RONDO_PATIENT"] = "1";
    Job job(Host::rank_zero, 4, killed ? "wait" : "agree", patient);
    job.startAll();
    leaveWhileStopped(job, Host::rank_zero, {2});
    REQUIRE(log.says("rank 2 did not connect to the new control plane"));
    if (!killed) {
      job.at(2).signal(SIGCONT);
      agree(job, {1, 2, 3});
      continue;
    }
    job.at(2).signal(SIGKILL);
    for (const int rank : {1, 3}) {
      const std::string line = job.at(rank).line(20s);
      INFO("rank " << rank << " says: " << line);
      CHECK(startsWith(line, "failed peer_dead 2 rank 2"));
    }
  }
}

// Proves: a patient rank waits for a new host that is stopped longer than others wait for it.
TEST_CASE("a patient job's new host is stopped before a rank has followed it: the rank waits") {
  const Log log;
  auto patient = log.in(kRare);
  patient["RONDO_PATIENT"] = "1";
  Job job(Host::rank_zero, 3, "agree", patient);
  job.startAll();
  for (const int rank : {1, 2}) job.at(rank).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  job.at(0).hangUp();
  REQUIRE(log.offered(1));
  job.at(1).signal(SIGCONT);
  REQUIRE(log.says("rank 1 hosts the control plane from now on"));
  CHECK(job.at(0).end().value_or(-1) == 0);
  job.at(1).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  job.at(2).signal(SIGCONT);
  std::this_thread::sleep_for(4s); // longer than a rank waits otherwise
  job.at(1).signal(SIGCONT);
  agree(job, {1, 2});
}

} // namespace rondo::test
