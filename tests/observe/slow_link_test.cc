// A slow link, as `rondo watch` and `rondo report` see it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "support/grid.h"
#include "support/paths.h"
#include "support/test.h"
#include "tests/observe/hosts.h"
#include "tests/tools/shell.h"
#include "tools/descriptor.h"
#include "tools/dump_links.h"

namespace rondo::test {
namespace {

using namespace tools;
using nlohmann::json;

/// The ranks that a page of `rondo watch` or `rondo report` blames, and for what. A link may be
/// slow in both directions; its ranks are in order.
std::set<std::string> blamed(const json& page) {
  std::set<std::string> all;
  for (const json& culprit : page["culprits"]) {
    std::set<std::string> ranks{culprit["rank"].dump()};
    if (culprit.contains("peer")) ranks.insert(culprit["peer"].dump());
    std::string text = ranks.size() > 1 ? "ranks" : "rank";
    for (const std::string& rank : ranks) text += " " + rank;
    all.insert(text + ": " + culprit["kind"].get<std::string>());
  }
  return all;
}

struct SlowLink {
  std::string environment, network; ///< `network`: options of shaped_network
  std::string blamed, text;         ///< `text`: how the finding begins
};

/// Runs four ranks, until a link is slow.
void checkSlowLink(const SlowLink& test) {
  INFO(test.environment << " " << test.network);
  const TemporaryFolder folder;
  const Outcome outcome = shell(
      "cd " + folder.file("") + "\nenv " + test.environment + " " + kHosts + "--ranks 4 " +
      test.network + "@$PWD/slow -- " + RONDO_TEST_PROGRAMS +
      "/program_endless_allreduce 65536 >out 2>err &\nJOB=$!\n" +
      "for TRY in $(seq 600); do [ $(grep -c ready out) = 4 ] && break; sleep 0.1; done\n"
      "PIDS=$(sed -n 's/^ready . //p' out)\n"
      "$RONDO watch --interval 0.4 --json $PIDS >watched &\nWATCH=$!\n"
      "for TRY in $(seq 600); do [ $(wc -l <watched) -ge 6 ] && break; sleep 0.1; done\n"
      "wc -l <watched\ntouch slow\n"
      "for TRY in $(seq 600); do grep -q 'culprits\":\\[{' watched && break; sleep 0.1; done\n"
      "wc -l <watched\n"
      // A dump, and watch --once, see a second or less, in which a busy machine may send too
      // little.
      "for TRY in $(seq 10); do\n$RONDO dump $PIDS -o dumps$TRY >&2\n"
      "$RONDO report --json dumps$TRY >report\ngrep -q slow_link report && break\ndone\n"
      "for TRY in $(seq 10); do\n$RONDO watch --once --json $PIDS >once\nSTATUS=$?\n"
      "grep -q slow_link once && break\ndone\ncat once\necho status $STATUS\n"
      "kill $JOB $WATCH; wait\n");
  INFO(outcome.out << outcome.err << readFile(folder.file("err")));
  const auto out = linesOf(outcome.out);
  REQUIRE(out.size() > 3);
  const auto healthy = std::stoul(out[0]), all = std::stoul(out[1]);
  const auto watched = linesOf(readFile(folder.file("watched")));
  REQUIRE(watched.size() >= all);
  const std::set<std::string> expected{test.blamed + ": slow_link"};
  for (std::size_t i = 0; i < all; ++i) {
    INFO(watched[i]);
    const auto found = blamed(json::parse(watched[i]));
    CHECK((found.empty() || (i >= healthy && found == expected)));
  }
  const std::string text = json::parse(watched[all - 1])["culprits"][0]["text"];
  INFO(text);
  CHECK(text.starts_with(test.text));
  CHECK(text.find("; the ranks are in AllReduce #") != std::string::npos);
  CHECK(text.find(" (max of 65536 float)") != std::string::npos);
  CHECK(blamed(json::parse(readFile(folder.file("report")))) == expected);
  CHECK(blamed(json::parse(out[2])) == expected); // of watch --once
  CHECK(out[3] == "status 1");
}

// Proves: watch and report find the rank whose host has a slow network, and the call, and blame
// none before; in a ring, too, whose links carry data in one direction only.
TEST_CASE("watch, report: the rank with the slow link is named, with its call", "[command]") {
  if (!hasHosts() || !kWholeGrid) return; // a sanitizer slows the ranks down
  const SlowLink one{"", "--change 0.2:4", "rank 2",
                     "the network of rank 2 is slow, for example from rank "};
  checkSlowLink(one);
  checkSlowLink({"RONDO_ALGO=ring", one.network, one.blamed, one.text});
}

TEST_CASE("watch, report: the slow link between two hosts is named with both of its ranks",
          "[command]") {
  if (!hasHosts() || !kWholeGrid) return;
  checkSlowLink({"", "--per-host 2 --change 0:4", "ranks 0 2", "the link from ranks "});
}

TEST_CASE("dump: also links that carry nothing at first are measured", "[command]") {
  if (!hasHosts()) return;
  const std::string job = RONDO_TEST_PROGRAMS "/program_recorded skip 1";
  const auto counts = linesBeside("RONDO_HEARTBEAT=60 " + kHosts + "-- " + job, 2,
                                  "sleep 1\n$RONDO dump $PIDS -o dumps >&2\n"
                                  "grep -c '\"links\":.{\"from\"' dumps/*.jsonl");
  REQUIRE(counts.size() == 2);
  for (const std::string& count : counts) CHECK(count.ends_with(":1"));
}

/// A TCP connection within this machine, between two addresses.
struct TwoEnds {
  explicit TwoEnds(const char* from) {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = addressOf("127.0.0.1"), source = addressOf(from);
    socklen_t bytes = sizeof(to);
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&to), bytes) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&to), &bytes) == 0);
    sender = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(sender.get(), reinterpret_cast<sockaddr*>(&source), bytes) == 0);
    REQUIRE(::connect(sender.get(), reinterpret_cast<sockaddr*>(&to), bytes) == 0);
    receiver = Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(receiver);
  }
  static sockaddr_in addressOf(const char* text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, text, &address.sin_addr);
    return address;
  }
  /// Sends a byte, which is acknowledged when the answer to it has come.
  void sendByte() const {
    char byte = 0;
    REQUIRE(::send(sender.get(), &byte, 1, 0) == 1);
    REQUIRE(::recv(receiver.get(), &byte, 1, MSG_WAITALL) == 1);
    REQUIRE(::send(receiver.get(), &byte, 1, 0) == 1);
    REQUIRE(::recv(sender.get(), &byte, 1, MSG_WAITALL) == 1);
  }
  Descriptor sender, receiver;
};

TEST_CASE("dump: links are those of the process, and not those of other processes") {
  auto others = std::make_unique<TwoEnds>("127.0.0.2");
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  others.reset();
  const TwoEnds own("127.0.0.3");
  const std::string self = std::to_string(::getpid()), other = std::to_string(child);
  LinkCounters links;
  for (int i = 0; i < 2; ++i) links.read({self, other});
  const std::string ours = links.text(self), theirs = links.text(other);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  INFO(ours << "\n" << theirs);
  for (const std::string& text : {ours, theirs}) CHECK(countOf(text, "\"from\"") == 2);
  const auto withoutTime = [](const std::string& text) {
    return text.substr(text.find("\"links\""));
  };
  CHECK(withoutTime(ours) != withoutTime(theirs));
}

/// `connecting`: see LinkCounters.
void checkReadings(std::chrono::seconds connecting) {
  INFO("connecting " << connecting.count());
  const std::string self = std::to_string(::getpid());
  auto first = std::make_unique<TwoEnds>("127.0.0.4");
  LinkCounters links(connecting);
  const auto reading = [&] {
    links.read({self});
    return links.text(self);
  };
  reading();
  for (int i = 0; i < 3; ++i) {
    for (int byte = 0; byte < 1000 + i; ++byte) first->sendByte();
    const std::string text = reading();
    INFO(text);
    CHECK(countOf(text, "\"from\"") == 2);
    CHECK(text.find("\"bytes\":" + std::to_string(1000 + i)) != std::string::npos);
  }
  const auto second = std::make_unique<TwoEnds>("127.0.0.5");
  CHECK(countOf(reading(), "\"from\"") == 4);
  CHECK(countOf(reading(), "\"from\"") == 4);
  first.reset();
  CHECK(countOf(reading(), "\"from\"") == 2);
}

// With 0 seconds the last readings ask for the connections one by one, else for a list.
TEST_CASE("dump: links are followed from reading to reading, while connections come and go") {
  checkReadings(std::chrono::seconds(0));
  checkReadings(std::chrono::hours(1));
}

TEST_CASE("dump: links that the kernel did not list are an error, and not links without data") {
  const std::string self = std::to_string(::getpid());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  LinkCounters links;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  links.read({self});
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(links.text(self) == "\"links_error\":\"no netlink socket: Too many open files\",");
  links.read({self});
  CHECK(links.text(self).find("\"links\":[") != std::string::npos);
}

} // namespace
} // namespace rondo::test
