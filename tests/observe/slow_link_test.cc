// A slow link, as `rondo watch` and `rondo report` see it.
#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "support/grid.h"
#include "support/paths.h"
#include "support/test.h"
#include "tests/observe/hosts.h"
#include "tests/tools/shell.h"
#include "tools/dump_links.h"

namespace rondo::tools {
namespace {

using nlohmann::json;

/// The ranks that a page of `rondo watch` or `rondo report` blames, and for what.
std::set<std::string> blamed(const json& page) {
  std::set<std::string> all;
  for (const json& culprit : page["culprits"])
    all.insert("rank " + culprit["rank"].dump() + ": " + culprit["kind"].get<std::string>());
  return all;
}

/// Runs with these settings, until a link is slow.
void checkSlowLink(const std::string& environment) {
  INFO(environment);
  const TemporaryFolder folder;
  const Outcome outcome = shell(
      "cd " + folder.file("") + "\nenv " + environment + " " + kHosts +
      "--ranks 4 --change 0.2:4@$PWD/slow -- " + RONDO_TEST_PROGRAMS +
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
  const std::set<std::string> expected{"rank 2: slow_link"};
  for (std::size_t i = 0; i < all; ++i) {
    INFO(watched[i]);
    const auto found = blamed(json::parse(watched[i]));
    CHECK((found.empty() || (i >= healthy && found == expected)));
  }
  const std::string text = json::parse(watched[all - 1])["culprits"][0]["text"];
  INFO(text);
  CHECK(text.starts_with("the network of rank 2 is slow, for example from rank "));
  CHECK(text.find("; the ranks are in AllReduce #") != std::string::npos);
  CHECK(text.find(" (max of 65536 float)") != std::string::npos);
  CHECK(blamed(json::parse(readFile(folder.file("report")))) == expected);
  CHECK(blamed(json::parse(out[2])) == expected); // of watch --once
  CHECK(out[3] == "status 1");
}

// Proves: watch and report find the rank whose host has a slow network, and the call, and blame
// none before; in a ring, too, whose links carry data in one direction only.
TEST_CASE("watch, report: the rank with the slow link is named, with its call", "[command]") {
  if (!hasHosts() || !test::kWholeGrid) return; // a sanitizer slows the ranks down
  checkSlowLink("");
  checkSlowLink("RONDO_ALGO=ring");
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
} // namespace rondo::tools
