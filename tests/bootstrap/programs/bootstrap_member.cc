// One rank as a process, for the tests: joins the job by the environment, and prints what happens.
//
//     program_bootstrap_member SCENARIO
//
// wait:   says "ready", then "failed CODE CULPRIT TEXT", or, after a line on stdin, makes one more
//         exchange and says "done"
// quit:   as wait, but after the line it leaves without an exchange
// two:    as quit, but the process has two ranks: the next one, too
// half:   as two, but after the line its first rank leaves and it says "left"; the second rank
//         leaves after one more line
// leave:  as quit, but it says "left" when it has left, and ends after one more line
// pair:   as wait, but only ranks 1 and 2 exchange
// vanish: as quit, but it ends by _exit() as soon as it has left
// fork:   as wait, but it forks a child first that exits at once, and another one when its session
//         is gone
// once:   opens two communicators, splits, exchanges; "done"
// host:   makes a unique id, prints it as hex digits, sleeps
// agree:  "ready", then after each line "agreed ID": the id of a new communicator of the ranks that
//         live. Other lines are echoed: "close": it leaves its communicator; "open": it opens
//         another one of all ranks; "cut": from now on no socket receives, except those that
//         connect this process with itself; "listen": the listeners receive again; "mend": all
//         sockets do
//
// At the end of its input it leaves. An error prints "error CODE CULPRIT TEXT". With the variable
// MEET_BY_COMM_ID, ranks meet by Rendezvous::commId().
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "bootstrap/session.h"
#include "support/cut_links.h"

using namespace rondo;
using namespace std::chrono_literals;

namespace {

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string describe(ErrorCode code, int culprit, const std::string& text) {
  return std::string(name(code)) + " " + std::to_string(culprit) + " " + text;
}

bool input_ended = false;
std::string heard; ///< the last line

bool lineOnStdin(std::chrono::milliseconds limit) {
  pollfd input{0, POLLIN, 0};
  if (::poll(&input, 1, static_cast<int>(limit.count())) <= 0) return false;
  heard.clear();
  char c = 0;
  while (::read(0, &c, 1) == 1) {
    if (c == '\n') return true;
    heard += c;
  }
  input_ended = true;
  return false;
}

void forkAndExit() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    std::exit(0); // with the destructors of everything static
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) throw Error(ErrorCode::data, "the child ended with " + std::to_string(status));
}

/// Opens this process's rank, or one of the ranks after it.
std::unique_ptr<bootstrap::Session> open(int after = 0) {
  auto meet = Rendezvous::environment();
  if (std::getenv("MEET_BY_COMM_ID") != nullptr) {
    const auto launch = Rendezvous::detectLauncher();
    meet = Rendezvous::commId(launch.rank + after, launch.size);
  }
  auto session = bootstrap::Session::open(meet, Options::fromEnvironment());
  session->allGather({}, 30s);
  return session;
}

void wait(const std::string& scenario) {
  std::future<std::unique_ptr<bootstrap::Session>> opening;
  if (scenario == "two" || scenario == "half")
    opening = std::async(std::launch::async, [] { return open(1); });
  auto session = open();
  std::unique_ptr<bootstrap::Session> pair, second;
  if (opening.valid()) second = opening.get();
  if (scenario == "pair")
    pair = session->split(session->rank() == 1 || session->rank() == 2, 0, 30s);
  if (scenario == "fork") forkAndExit();
  say("ready");
  for (int i = 0; i < 12'000; ++i) {
    for (const auto* each : {session.get(), second.get()}) {
      if (each == nullptr || each->failedWord().load(std::memory_order_acquire) == 0) continue;
      const auto failure = each->failure();
      return say("failed " + describe(failure.code, failure.culprit, failure.text));
    }
    if (!lineOnStdin(5ms)) {
      if (input_ended) return say("done");
      continue;
    }
    if (scenario == "half" && session) {
      session.reset();
      say("left");
      continue;
    }
    if (scenario == "leave") {
      session.reset();
      say("left");
      lineOnStdin(60s);
      return;
    }
    if (scenario == "vanish") {
      session.reset();
      say("done");
      ::_exit(0);
    }
    if (scenario == "pair") pair->allGather({}, 30s);
    else if (session && scenario != "quit" && scenario != "two") session->allGather({}, 30s);
    return say("done");
  }
  say("nothing happened");
}

/// Does what the last line says about the network, or returns false.
bool cutsOrMends() {
  const bool cuts = heard == "cut";
  if (!cuts && heard != "listen" && heard != "mend") return false;
  std::vector<int> sockets = test::listeners();
  if (heard != "listen")
    for (const int fd : test::linksToOthers()) sockets.push_back(fd);
  for (const int fd : sockets)
    if (!(cuts ? test::cutLink(fd) : test::mendLink(fd)) && cuts)
      throw Error(ErrorCode::system, "a socket cannot be cut");
  say(heard);
  return true;
}

void agree() {
  auto session = open();
  say("ready");
  std::vector<std::unique_ptr<bootstrap::Session>> children;
  while (lineOnStdin(60s)) {
    if (cutsOrMends()) continue;
    if (heard == "close" || heard == "open") {
      if (heard == "close") session.reset();
      else session = open();
      say(heard);
      continue;
    }
    children.push_back(session->survivors(30s));
    say("agreed " + std::to_string(children.back()->communicator()));
  }
}

void once() {
  const Options options = Options::fromEnvironment();
  for (int round = 0; round < 2; ++round) {
    const auto session = bootstrap::Session::open(Rendezvous::environment(), options);
    const auto launch = Rendezvous::detectLauncher();
    if (session->rank() != launch.rank || session->size() != launch.size)
      throw Error(ErrorCode::data, "the session has another rank or size");
    const auto child = session->split(session->rank() % 2, 0, 30s);
    const auto mine = static_cast<std::byte>(session->rank());
    const auto all = child->allGather(std::span(&mine, 1), 30s);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].size() != 1 ||
          std::to_integer<int>(all[i][0]) != session->rank() % 2 + 2 * static_cast<int>(i))
        throw Error(ErrorCode::data, "a wrong blob");
    session->allGather({}, 30s);
  }
  say("done");
}

void host() {
  const UniqueId id = UniqueId::create();
  std::string digits;
  for (const std::byte b : id.bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(b));
    digits += two;
  }
  say(digits);
  lineOnStdin(60s);
}

} // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc == 2 ? argv[1] : "";
  try {
    if (scenario == "wait" || scenario == "quit" || scenario == "vanish" || scenario == "fork" ||
        scenario == "pair" || scenario == "two" || scenario == "half" || scenario == "leave")
      wait(scenario);
    else if (scenario == "agree") agree();
    else if (scenario == "once") once();
    else if (scenario == "host") host();
    else return 2;
    if (scenario == "fork") forkAndExit(); // the process is still a member of its job
  } catch (const Error& error) {
    say("error " + describe(error.code(), error.culprit(), error.what()));
    return 1;
  }
  return 0;
}
