// `rondo doctor` as the ranks of a job: each planted fault is one line that names it and its
// remedy, and a healthy job has none.
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/test.h"
#include "tests/observe/hosts.h"
#include "tests/tools/shell.h"
#include "tools/doctor_job.h"

namespace rondo::test {
namespace {

using namespace tools;

/// Ranks on hosts, `per_host` on each.
std::vector<RankFacts> ranksOn(int hosts, int per_host) {
  std::vector<RankFacts> ranks;
  for (int host = 0; host < hosts; ++host)
    for (int i = 0; i < per_host; ++i) {
      RankFacts facts;
      facts.host = facts.node = "h" + std::to_string(host);
      facts.version = "1";
      ranks.push_back(facts);
    }
  return ranks;
}

/// All pairs, with the bandwidth that the function gives.
template <class Bandwidth>
LinkFacts linksOf(int ranks, bool alone, const Bandwidth& bandwidth) {
  LinkFacts links{"tcp over eth0", {}};
  for (int a = 0; a < ranks; ++a)
    for (int b = a + 1; b < ranks; ++b) links.pairs.push_back({a, b, 1e-5, bandwidth(a, b), alone});
  return links;
}

std::vector<std::string> textsOf(const std::vector<DoctorFinding>& found) {
  std::vector<std::string> texts;
  for (const DoctorFinding& one : found) texts.push_back(one.text);
  return texts;
}

TEST_CASE("doctor: a slow host, rank or pair of ranks is named, and nothing else", "[command]") {
  // Values differ by a third, as on a busy machine.
  const auto usual = [](int a, int b) { return 1e8 + 1e6 * ((a * 7 + b * 5) % 31); };
  for (const int hosts : {1, 2, 3, 4, 8})
    for (const int per_host : {1, 2, 8}) {
      const int all = hosts * per_host;
      if (all < 3) continue;
      const auto ranks = ranksOn(hosts, per_host);
      INFO(hosts << " hosts of " << per_host << " ranks");
      CHECK(judgeLinks(ranks, linksOf(all, true, usual), {}).empty());
      const int odd = all - 1;
      if (hosts > 2) {
        const auto texts = textsOf(judgeLinks(
            ranks,
            linksOf(all, true,
                    [&](int a, int b) {
                      const bool slow = a / per_host == 1 || b / per_host == 1;
                      return slow && a / per_host != b / per_host ? usual(a, b) / 10 : usual(a, b);
                    }),
            {}));
        REQUIRE(texts.size() == 1);
        CHECK(texts[0].starts_with("host h1 ("));
        CHECK(texts[0].find(" by tcp over eth0, where the median of the") != std::string::npos);
      }
      if (per_host > 1 || hosts == 1) {
        const auto slow_rank = linksOf(all, true, [&](int a, int b) {
          return a == odd || b == odd ? usual(a, b) / 10 : usual(a, b);
        });
        const auto texts = textsOf(judgeLinks(ranks, slow_rank, {}));
        REQUIRE(texts.size() == 1);
        CHECK(texts[0].starts_with("rank " + std::to_string(odd) + " on host h"));
        CHECK(judgeLinks(ranks, slow_rank, {odd}).empty());
      }
      if (all >= 8) {
        const auto texts =
            textsOf(judgeLinks(ranks,
                               linksOf(all, true,
                                       [&](int a, int b) {
                                         return a == 1 && b == odd ? usual(a, b) / 10 : usual(a, b);
                                       }),
                               {}));
        REQUIRE(texts.size() == 1);
        CHECK(texts[0].starts_with("between rank 1 (h"));
      }
    }
}

TEST_CASE("doctor: a link that is almost slow is suspicious, and a link that is slow too",
          "[command]") {
  const auto ranks = ranksOn(4, 1);
  const auto with = [&](double part) {
    return linksOf(4, true, [part](int a, int b) { return a == 2 || b == 2 ? part * 1e9 : 1e9; });
  };
  CHECK((suspicious(ranks, with(0.1)) && !judgeLinks(ranks, with(0.1), {}).empty()));
  CHECK((suspicious(ranks, with(0.2)) && judgeLinks(ranks, with(0.2), {}).empty()));
  CHECK(!suspicious(ranks, with(0.3)));
}

TEST_CASE("doctor: in a large job the slowest pairs of a host are among those measured again",
          "[command]") {
  const auto ranks = ranksOn(8, 8);
  LinkFacts within{"shm", {}}, across{"tcp over eth0", {}};
  for (int a = 0; a < 64; ++a)
    for (int b = a + 1; b < 64; ++b)
      (a / 8 == b / 8 ? within : across)
          .pairs.push_back({a, b, 1e-5, a == 33 && b == 38 ? 1e7 : 1e9 + a, false});
  const std::set<int> repeated = ranksToRepeat(ranks, within);
  CHECK(repeated == std::set<int>{32, 33, 34, 35, 36, 37, 38, 39});
  CHECK(ranksToRepeat(ranks, across) == std::set<int>{0, 8, 16, 24, 32, 40, 48, 56});
  const auto many = ranksOn(1, 40);
  const std::set<int> some = ranksToRepeat(
      many, linksOf(40, false, [](int a, int b) { return a == 20 && b == 30 ? 1e7 : 1e9; }));
  CHECK((some.size() == 8 && some.contains(20) && some.contains(30)));
  CHECK(ranksToRepeat(ranksOn(3, 2), linksOf(6, false, [](int, int) { return 1e9; })).size() == 6);
}

TEST_CASE("doctor: versions, clocks and processor time of ranks are compared", "[command]") {
  JobFacts job;
  job.ranks = ranksOn(3, 2);
  CHECK(judgeJob(job).empty());
  job.ranks[4].version = job.ranks[5].version = "2";
  job.ranks[2].clock = job.ranks[3].clock = -3'200'000'000;
  job.ranks[1].share = 0.33;
  job.ranks[0].findings = job.ranks[1].findings = {{false, "descriptors", "only 100", "ulimit"}};
  const auto texts = textsOf(judgeJob(job));
  CHECK(texts ==
        std::vector<std::string>{
            "ranks 0, 1 on h0: only 100",
            "the versions of Rondo differ: ranks 0-3: 1; ranks 4, 5: 2",
            "host h1's clock is 3.2 s behind that of rank 0's host",
            "rank 1 on host h0 gets 33 % of a processor's time, where the median is 100 %"});
}

/// Runs shell code, and then the doctor, on each rank of emulated hosts.
Outcome onHosts(const std::string& network, const std::string& before,
                const std::string& arguments = "") {
  return shell("cat >$0.rank <<'END'\n" + before + "\nexec $1 doctor " + arguments + "\nEND\n" +
               kHosts + network + " -- sh $0.rank $RONDO\n");
}

/// The findings about the job; what is wrong with this machine is not of interest.
std::vector<std::string> jobFindings(const Outcome& outcome) {
  std::vector<std::string> found;
  for (const std::string& line : linesOf(outcome.out))
    for (const char* name :
         {"link: ", "clocks: ", "versions: ", "processor time: rank ", "join: ", "interface: "})
      if (line.starts_with(std::string("warning: ") + name) ||
          line.starts_with(std::string("error: ") + name))
        found.push_back(line);
  return found;
}

struct Planted {
  const char* what;
  const char* network;
  const char* before; ///< shell code on each rank
  const char* finding;
  int status; ///< kAny: not 0 (a rank that cannot join does not hear of the others)
};
constexpr int kAny = -1;

TEST_CASE("doctor: each fault of a network is one line with its remedy", "[command]") {
  if (!hasHosts()) return;
  const Planted faults[] = {
      {"one of 4 links is slow", "--ranks 4 --mbit 0",
       "[ $RONDO_RANK = 2 ] && tc qdisc replace dev rail0 root tbf rate 20mbit burst 125000 "
       "latency 200ms",
       "(rank 2) moves ", 0},
      {"one of 2 rails is slow on one host", "--ranks 4 --rails 2 --mbit 0",
       "[ $RONDO_RANK = 1 ] && tc qdisc replace dev rail1 root tbf rate 20mbit burst 125000 "
       "latency 200ms",
       " by tcp over rail1, where the median of the ", 0},
      {"an interface that is not there", "--ranks 3",
       "[ $RONDO_RANK = 1 ] && export RONDO_SOCKET_IFNAME=nosuch0", "error: interface: rank 1 on ",
       1},
      {"an interface that the others do not reach", "--ranks 3",
       "ip link add other0 type veth peer name veth0; ip link set veth0 up; "
       "ip addr add 172.31.0.1/16 dev other0; ip link set other0 up; "
       "export RONDO_SOCKET_IFNAME=other0",
       "other0", kAny},
      {"a closed port", "--ranks 2", "[ $RONDO_RANK = 1 ] && ip route add prohibit 10.213.0.1/32",
       "error: join: rank 1 on ", kAny},
      {"a closed port between two ranks", "--ranks 3",
       "[ $RONDO_RANK = 1 ] && ip route add prohibit 10.213.0.3/32\n"
       "[ $RONDO_RANK = 2 ] && ip route add prohibit 10.213.0.2/32",
       "error: link: ", 1},
  };
  for (const Planted& planted : faults) {
    const bool slow = std::string(planted.finding).find(" by tcp over ") != std::string::npos;
    // On a busy machine the other links may be as slow as the planted one.
    for (int turns_left = slow ? 3 : 1; turns_left > 0;) {
      const Outcome outcome = onHosts(planted.network, planted.before);
      auto found = jobFindings(outcome);
      // Other programs may run beside this one.
      std::erase_if(found, [](const std::string& line) {
        return line.starts_with("warning: processor time: ") ||
               line.find("look for other programs on its processors") != std::string::npos;
      });
      const bool named = std::any_of(found.begin(), found.end(), [&](const std::string& line) {
        return line.find(planted.finding) != std::string::npos;
      });
      turns_left = named ? 0 : turns_left - 1;
      if (turns_left > 0) continue;
      INFO(planted.what << " (" << outcome.seconds << " s)\n" << outcome.out << outcome.err);
      CHECK(named);
      if (planted.status == kAny) CHECK(outcome.status != 0);
      else CHECK(outcome.status == planted.status);
      if (!slow) CHECK(found.size() == 1); // on a busy machine further links may be slow
      for (const std::string& line : found) CHECK(line.find(". Remedy: ") != std::string::npos);
    }
  }
}

// Proves: the ranks agree how many ways they measure, whatever each of them names.
TEST_CASE("doctor: an interface that only one rank names is used by that rank only", "[command]") {
  if (!hasHosts()) return;
  const Outcome outcome =
      onHosts("--ranks 3 --rails 2 --mbit 0",
              "[ $RONDO_RANK = 1 ] && export RONDO_SOCKET_IFNAME=rail0", "--json");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(nlohmann::json::parse(outcome.out)["links"].size() == 3);
}

TEST_CASE("doctor: a healthy job of 4 hosts has no finding, in text and JSON, and a heat map",
          "[command]") {
  if (!hasHosts()) return;
  const TemporaryFolder folder;
  const Outcome outcome =
      onHosts("--ranks 8 --per-host 2", "", "--json --svg " + folder.file("links.svg"));
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const auto page = nlohmann::json::parse(outcome.out);
  CHECK(page["runs"] == true);
  for (const auto& one : page["findings"]) CHECK(one["name"] != "link");
  CHECK(page["ranks"].size() == 8);
  CHECK(page["links"].size() == 4 + 24); // pairs on a host, and on different ones
  for (const auto& one : page["links"]) {
    CHECK(one["bytes_per_second"].get<double>() > 0);
    CHECK(one["latency_us"].get<double>() > 0);
  }
  const std::string svg = readFile(folder.file("links.svg"));
  CHECK(svg.starts_with("<svg "));
  CHECK(countOf(svg, "<title>") == 2 * 2 * 28);
}

// Only by hand (test_observe "*shares its processor*"): it keeps a processor busy, which disturbs
// the tests that run beside it.
TEST_CASE("doctor: a rank that shares its processor is named", "[.]") {
  // With eight programs, each in a session of its own: the system shares a processor among sessions
  // first, and other programs may run on both processors.
  const Outcome outcome = shell(
      "cat >$0.rank <<'END'\nALL=$(taskset -cp $$ | sed 's/.*: //; s/-/ /; s/,/ /g')\nset -- $1 "
      "$ALL\n"
      "[ $# -gt 2 ] || exit 77\n"
      "if [ $RONDO_RANK = 1 ]; then taskset -cp $3 $$ >&2\n"
      "  for I in 1 2 3 4 5 6 7 8; do\n"
      "    setsid timeout 60 sh -c 'while :; do :; done' >$0.busy 2>&1 & BUSY=\"$BUSY $!\"\n"
      "  done\n"
      "else taskset -cp $2 $$ >&2; fi\n"
      "$1 doctor\nSTATUS=$?\n[ -z \"$BUSY\" ] || kill $BUSY\nexit $STATUS\nEND\n"
      "$RONDO run -p 2 -- sh $0.rank $RONDO\n");
  if (outcome.status == 77) {
    WARN("not run: it needs two processors");
    return;
  }
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  const auto found = jobFindings(outcome);
  REQUIRE(found.size() == 1);
  CHECK(found[0].starts_with("warning: processor time: rank 1 on host "));
}

} // namespace
} // namespace rondo::test
