// Tests what happens while a host of the control plane leaves or dies: other ranks leave, are
// stopped, or are cut off.
#include <signal.h>

#include "hand_over.h"

namespace rondo::test {

// Proves: the rank that takes over does not take a rank for dead that left after the offer.
TEST_CASE("a rank leaves while a stopped successor has not answered yet: nobody is named") {
  const Log log;
  Job job(Host::rank_zero, 3, "quit", log.in(kRare));
  offerToStopped(job, log);
  job.at(2).hangUp();
  REQUIRE(log.left(2));
  job.at(1).signal(SIGCONT);
  REQUIRE(log.offered(1, 2)); // without rank 2
  CHECK(job.at(2).end().value_or(-1) == 0);
  namesNobody(job, log);
}

// Proves: a hub that a rank opened for an offer waits for the host's decision, however late.
TEST_CASE("a host is stopped for four seconds after its offers were answered: nobody is named") {
  const Log log;
  Job job(Host::rank_zero, 3, "quit", log.in(kRare));
  offerToBothStopped(job, log);
  job.at(0).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  for (const int rank : {1, 2}) job.at(rank).signal(SIGCONT);
  std::this_thread::sleep_for(4s); // longer than a hub waits for ranks that were sent to it
  job.at(0).signal(SIGCONT);
  REQUIRE(log.says("hosts the control plane from now on"));
  CHECK(job.at(0).end().value_or(-1) == 0);
  for (const int rank : {1, 2}) CHECK(job.at(rank).line(4s) == "");
  namesDeathOf2(job, log);
}

// Proves: before a host that was stopped decides on an answer, it reads which ranks have left.
TEST_CASE("a rank leaves while its host is stopped and has an answer to read: nobody is named") {
  const Log log;
  Job job(Host::rank_zero, 3, "quit", log.in(kRare));
  offerToStopped(job, log);
  job.at(0).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  job.at(1).signal(SIGCONT);
  std::this_thread::sleep_for(200ms); // if the answer comes after the bye, nothing is tested
  job.at(2).hangUp();
  CHECK(job.at(2).end().value_or(-1) == 0);
  job.at(0).signal(SIGCONT);
  namesNobody(job, log);
}

// Proves: no rank that ends in order is taken for dead, whatever it has read of the move. The jobs
// differ in when their ranks end; a host waits for 50 ms for ranks that end with it.
TEST_CASE("ranks end while their host hands the control plane over: the others name nobody") {
  std::vector<std::unique_ptr<Job>> jobs;
  for (int i = 0; i < 6; ++i) {
    jobs.push_back(std::make_unique<Job>(Host::rank_zero, kSize, "quit", kRare));
    jobs.back()->startAll();
  }
  for (const auto& job : jobs) job->at(0).tell("go");
  std::this_thread::sleep_for(45ms);
  for (const auto& job : jobs)
    for (const int rank : {2, 3}) {
      job->at(rank).tell("go");
      std::this_thread::sleep_for(2ms);
    }
  std::this_thread::sleep_for(4s); // until a new hub would have named them
  for (const auto& job : jobs)
    for (const int rank : {1, 4}) {
      CHECK(job->at(rank).line(1ms) == "");
      job->at(rank).tell("go");
      CHECK(job->at(rank).line() == "done");
    }
  for (const auto& job : jobs)
    for (int rank = 0; rank < kSize; ++rank) CHECK(job->at(rank).end().value_or(-1) == 0);
}

// Proves: an ending host waits longer for an answer when its ranks' heartbeat is long.
TEST_CASE("a host ends while all others are stopped for four seconds: they get another hub") {
  const Log log;
  Job job(Host::rank_zero, 3, "quit", log.in(kRare));
  offerToBothStopped(job, log);
  std::this_thread::sleep_for(4s);
  job.at(1).signal(SIGCONT); // first, since rank 2 is killed
  REQUIRE(log.says("rank 1 hosts the control plane from now on"));
  job.at(2).signal(SIGCONT);
  CHECK(job.at(0).end().value_or(-1) == 0);
  namesDeathOf2(job, log);
}

// Proves: a rank that was stopped while the control plane moved gets an error if the new host has
// died before the rank connects to it.
TEST_CASE("a new host dies before a rank that was stopped has followed it: the rank names it") {
  const Log log;
  Job job(Host::rank_zero, 3, "quit", log.in(kRare));
  offerToBothStopped(job, log);
  job.at(2).signal(SIGCONT);
  REQUIRE(log.says("rank 2 hosts the control plane from now on"));
  CHECK(job.at(0).end().value_or(-1) == 0);
  job.at(2).signal(SIGKILL);
  std::this_thread::sleep_for(2500ms); // from two seconds on, the others may have excluded it
  job.at(1).signal(SIGCONT);
  const std::string line = job.at(1).line(20s);
  INFO("rank 1 says: " << line << "; the log:\n" << log.text());
  CHECK(startsWith(line, "failed unresponsive 2 rank 2"));
}

// Proves: a hub that a rank opened for a host, which then died, is not taken for the next hub.
TEST_CASE("a host is killed while it waits for stopped successors, which then go on without it") {
  const Log log;
  Job job(Host::rank_zero, 4, "agree", log.in(kUsual));
  job.startAll();
  for (const int rank : {1, 2, 3}) job.at(rank).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  job.at(0).hangUp();
  for (const int rank : {1, 2, 3}) REQUIRE(log.offered(rank));
  job.at(0).signal(SIGKILL);
  for (const int rank : {1, 2, 3}) job.at(rank).signal(SIGCONT);
  agree(job, {1, 2, 3});
}

// Proves: the ranks of a process, which share a hub, do not get offers that differ. Rank 3 leaves
// before the second offer.
TEST_CASE("a rank leaves while a stopped process with two ranks has not answered yet") {
  const Log log;
  auto environment = log.in(kRare);
  environment["MEET_BY_COMM_ID"] = "1";
  Job job(Host::rank_zero, 5, "quit", environment);
  job.start(0);
  job.start(1, {}, "two"); // ranks 1 and 2
  job.start(3, {}, "leave");
  job.start(4);
  for (const int rank : {0, 1, 3, 4}) REQUIRE(job.at(rank).line() == "ready");
  job.at(3).tell("go");
  CHECK(job.at(3).line() == "left");
  for (const int rank : {1, 4}) job.at(rank).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  job.at(0).tell("go");
  REQUIRE(log.offered(1));
  job.at(3).hangUp();
  REQUIRE(log.left(3));
  REQUIRE(log.offered(4)); // the last one
  CHECK(job.at(3).end().value_or(-1) == 0);
  job.at(1).signal(SIGCONT);
  REQUIRE(log.says("hosts the control plane from now on"));
  job.at(4).signal(SIGCONT);
  CHECK(job.at(1).line(4s) == "");
  job.at(4).signal(SIGKILL);
  const std::string line = job.at(1).line(20s);
  INFO("rank 1 says: " << line);
  CHECK(startsWith(line, "failed peer_dead 4 rank 4"));
}

// Proves: a host whose rank leaves hands the control plane over to another process, not to another
// rank of its own.
TEST_CASE("the host's rank leaves, but another rank of its process stays: rank 2 takes over") {
  const Log log;
  auto environment = log.in(kRare);
  environment["MEET_BY_COMM_ID"] = "1";
  Job job(Host::rank_zero, 4, "quit", environment);
  job.start(0, {}, "half"); // ranks 0 and 1
  for (const int rank : {2, 3}) job.start(rank);
  for (const int rank : {0, 2, 3}) REQUIRE(job.at(rank).line() == "ready");
  job.at(0).tell("go");
  CHECK(job.at(0).line() == "left");
  CHECK(log.says("rank 2 hosts the control plane from now on"));
  job.at(3).signal(SIGKILL);
  for (const int rank : {0, 2}) {
    const std::string line = job.at(rank).line(20s);
    INFO("the process of rank " << rank << " says: " << line);
    CHECK(startsWith(line, "failed peer_dead 3 rank 3"));
  }
}

// Proves: a process whose rank opens another communicator, after it has handed the control plane
// over, can still take the control plane over again.
TEST_CASE("rank 0 leaves and opens another communicator, then the new host dies: rank 0 follows") {
  const Log log;
  Job job(Host::rank_zero, 3, "agree", log.in(kRare));
  job.startAll();
  job.at(0).tell("close");
  REQUIRE(job.at(0).line() == "close");
  REQUIRE(log.says("rank 1 hosts the control plane from now on"));
  for (const int rank : {0, 1, 2}) job.at(rank).tell("open");
  for (const int rank : {0, 1, 2}) REQUIRE(job.at(rank).line() == "open");
  job.at(1).signal(SIGKILL);
  agree(job, {0, 2});
}

// Proves: a candidate that the others skipped, though its process never stopped, does not go on
// alone when they have ended. It notices the host's death before that, by the host's silence, or
// only afterwards, by the end of its connection.
TEST_CASE("the host dies while its successor is cut off for two seconds: the others replace both") {
  for (const auto& heartbeat : {kUsual, kRare}) {
    INFO("heartbeat " << heartbeat.at("RONDO_HEARTBEAT"));
    const Log log;
    Job job(Host::rank_zero, 4, "agree", log.in(heartbeat));
    job.startAll();
    job.at(1).tell("cut");
    REQUIRE(job.at(1).line() == "cut");
    job.at(0).signal(SIGKILL);
    REQUIRE(log.says("rank 1 cannot host the control plane", 2)); // ranks 2 and 3
    job.at(1).tell("listen"); // before the next hub decides, four seconds later
    REQUIRE(job.at(1).line() == "listen");
    agree(job, {2, 3});
    for (const int rank : {2, 3}) job.at(rank).hangUp();
    for (const int rank : {2, 3}) CHECK(job.at(rank).end().value_or(-1) == 0);
    job.at(1).tell("mend");
    REQUIRE(job.at(1).line() == "mend");
    job.at(1).tell("go");
    const std::string line = job.at(1).line();
    INFO("rank 1 says: " << line << "; the log:\n" << log.text());
    CHECK(startsWith(line, "error unresponsive"));
    CHECK(line.find("may have continued without") != std::string::npos);
  }
}

// Proves: a host whose network was cut, but which was not stopped, does not take the ends of the
// others for deaths once they have replaced it. It hosts the job's first hub, or one that was
// handed over.
TEST_CASE(
    "a host is cut off until the others have replaced it and ended: it gets no communicator") {
  for (const bool handed_over : {false, true}) {
    INFO((handed_over ? "a hub that was handed over" : "the first hub"));
    const Log log;
    const int host = handed_over ? 1 : 0;
    const std::vector<int> others{host + 1, host + 2, host + 3};
    Job job(Host::rank_zero, host + 4, "agree", log.in(kUsual));
    job.startAll();
    if (handed_over) {
      job.at(0).hangUp();
      REQUIRE(log.says("rank 1 hosts the control plane from now on"));
      CHECK(job.at(0).end().value_or(-1) == 0);
    }
    for (const char* change : {"cut", "listen"}) { // its connections stay cut
      job.at(host).tell(change);
      REQUIRE(job.at(host).line() == change);
    }
    agree(job, others);
    for (const int rank : others) job.at(rank).hangUp();
    for (const int rank : others) CHECK(job.at(rank).end().value_or(-1) == 0);
    job.at(host).tell("mend");
    REQUIRE(job.at(host).line() == "mend");
    REQUIRE(log.says(" of " + std::to_string(host + 4) + " is lost", 3));
    job.at(host).tell("go");
    const std::string line = job.at(host).line();
    INFO("the host says: " << line << "; the log:\n" << log.text());
    CHECK(startsWith(line, "error unresponsive"));
    CHECK(line.find("may have continued without") != std::string::npos);
  }
}

} // namespace rondo::test
