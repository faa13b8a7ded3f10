// Runs the built command: refused arguments, help, plans, and benchmarks whose results
// must be right.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plan/registry.h"
#include "rondo/communicator.h"
#include "rondo/options.h"
#include "rondo/transports.h"
#include "rondo/types.h"
#include "support/paths.h"
#include "support/ranks.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

TEST_CASE("Refused arguments: status 2, and an error that names what is valid", "[command]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "subcommand"},
      {"frobnicate", "frobnicate"},
      {"bench", "collective"},
      {"bench allredce", "allreduce"},
      {"bench allreduce -d float33", "float16"},
      {"bench allreduce -o plus", "sum"},
      {"bench allreduce -o band -d float", "band"},
      {"bench allreduce --algorithm rnig", "ring"},
      {"bench broadcast --algorithm ring", "tree"},
      {"bench sendrecv --algorithm ring", "sendrecv"},
      {"bench allreduce --transport ipc", "shm"},
      {"bench allreduce --ranks-per-gpu 2", "--device cuda"},
      {"bench allreduce -G 5", "--device cuda"},
      {"bench allreduce --device cuda --mapped", "--mapped"},
      {"bench allreduce --device tpu", "cpu"},
      {"bench allreduce -b 1X", "bytes"},
      {"bench allreduce -b 2M -e 1M", "smallest"},
      {"bench allreduce -f 1", "1"},
      {"bench allreduce -f 2 -i 8", "stepbytes"},
      {"bench allreduce -p 0", "0"},
      {"bench allreduce -n 0", "0"},
      {"bench allreduce -a 4", "4"},
      {"bench allreduce --time p42", "median"},
      {"bench reduce -p 2 -r 2", "root 2"},
      {"bench allreduce --frobnicate", "frobnicate"},
      {"run", "program"},
      {"run -p 0 true", "0"},
      {"plan --algorithm rnig", "ring"},
      {"plan allreduce --algorithm bruck -p 4", "oneshot"},
      {"plan -p 1-4", "--check"},
      {"plan --check -p 4-2", "rank counts"},
      {"plan --check -p 5000", "4096"},
      {"plan allreduce --algorithm ring -p 4 --rank 4", "rank"},
      {"plan allreduce -p 4 --rounds", "--algorithm"},
      {"plan allreduce -p 4 --bytes 1X", "1X"},
      {"plan broadcast --algorithm tree -p 4 --root 4", ""},
      {"plan --table --list", "--list"},
      {"plan --table -p 1", ""},
      {"plan broadcast -p 3 -r 7", "root 7"},
      {"plan broadcast -r -1", "0 to 4095"},
      {"plan --algorithm ring --ranks-per-gpu 0", "1 to 4096"},
      {"train --model resnet", "mlp"},
      {"train --data /no/such/folder", "/no/such/folder"},
      {"train --momentum 2", "2"},
      {"train --bucket-cap 3X", "a number of bytes"},
      {"train --bucket-cap 1M,,2M", "a list of words"},
      {"train --bucket-cap ,", "a list of words"},
      {"train --bucket-cap ''", "a list of words"},
      {"help cooking", "environment"},
  };
  for (const auto& [arguments, named] : cases) {
    INFO("rondo " << arguments);
    const Outcome outcome = shell("$RONDO " + arguments);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(named) != std::string::npos);
    CHECK_FALSE(outcome.err.empty());
  }
}

TEST_CASE("Unknown options: the command is named, and the option that may have been meant",
          "[command]") {
  const std::pair<const char*, const char*> cases[] = {
      {"bench --algoritm ring allreduce",
       "rondo bench: unknown option --algoritm; did you mean --algorithm?\n"},
      {"bench allreduce -y", "`rondo bench --help` explains the options.\n"},
      {"simulate train --modle cnn", "rondo simulate train: unknown option --modle; did you mean"},
      {"bench --lagorithm ring allreduce",
       "unknown option --lagorithm; did you mean --algorithm?\n"},
      {"--vresion", "unknown option --vresion; did you mean --version?\n"},
      {"--vresino", "unknown option --vresino; did you mean --version?\n"},
      {"bench --algo ring allreduce", "unknown option --algo; did you mean --algorithm?\n"},
      {"--vresinos", "unknown option --vresinos\n"},
  };
  for (const auto& [arguments, text] : cases) {
    INFO("rondo " << arguments);
    const Outcome outcome = shell(std::string("$RONDO ") + arguments);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(text) != std::string::npos);
  }
  // The options of a program are its own; -n is MPI's word for -p.
  const Outcome echoed = shell("$RONDO run -n 2 echo --own-option");
  CHECK(echoed.out == "--own-option\n--own-option\n");
}

TEST_CASE("Refused environment: the variable is named, nothing hangs", "[command]") {
  for (const std::string variable : {"RONDO_TRANSPORT=ipc", "RONDO_ALGO=rnig", "RONDO_DEPTH=0.5",
                                     "RONDO_TIMEOUT=soon", "RONDO_DEBUG=loud"}) {
    INFO(variable);
    const Outcome outcome =
        shell("export " + variable + "; $RONDO bench allreduce -p 2 -e 8 -n 1", 60);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(variable.substr(variable.find('=') + 1)) != std::string::npos);
  }
}

TEST_CASE("Help: everything explains itself and shows examples", "[command]") {
  CHECK(shell("$RONDO --version").out.find("rondo ") == 0);
  for (const char* command : {"bench", "run", "plan", "topo", "train"}) {
    const Outcome outcome = shell(std::string("$RONDO ") + command + " --help");
    CHECK(outcome.status == 0);
    CHECK(outcome.out.find("Example") != std::string::npos);
    CHECK(shell(std::string("$RONDO help ") + command).out == outcome.out);
  }
  const Outcome environment = shell("$RONDO help environment");
  CHECK(environment.status == 0);
  CHECK(environment.out.find("RONDO_MPI_STATS\n") != std::string::npos);
  for (const OptionHelp& option : optionHelp()) {
    INFO(option.variable);
    CHECK(environment.out.find(option.variable) != std::string::npos);
    CHECK(environment.out.find(option.meaning) != std::string::npos);
  }
}

TEST_CASE("plan: every algorithm is listed, proved, and printed", "[command]") {
  const Outcome list = shell("$RONDO plan --list");
  const Outcome help = shell("$RONDO plan --help");
  for (const plan::Algorithm* algorithm : plan::algorithms()) {
    CHECK(list.out.find(std::string(algorithm->name) + " ") != std::string::npos);
    CHECK(list.out.find(std::string(algorithm->summary)) != std::string::npos);
    CHECK(help.out.find(algorithm->name) != std::string::npos);
  }
  const Outcome check = shell("$RONDO plan --check --all -p 1-9,16");
  CHECK(check.status == 0);
  std::size_t pairs = 0;
  for (const plan::Algorithm* algorithm : plan::algorithms()) {
    for (const Collective collective : kCollectives) {
      bool any = false;
      for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) {
        any = any || algorithm->supports({collective, ranks});
      }
      if (any) ++pairs;
    }
  }
  const auto lines = linesOf(check.out);
  CHECK(lines.size() == pairs + 1);
  CHECK(lines.back().find("all proved") != std::string::npos);
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const Outcome ring =
        shell("$RONDO plan allreduce --algorithm ring -p " + std::to_string(ranks));
    CHECK(ring.status == 0);
    CHECK(ring.out.find("ring: ") == 0);
    CHECK(ring.out.find(std::to_string(2 * (ranks - 1)) + " rounds") != std::string::npos);
  }
  CHECK(shell("$RONDO plan --table -p 8 --bytes 1M").status == 0);
}

TEST_CASE("plan: all algorithms of a collective are compared, and the choice is marked",
          "[command]") {
  const auto marked = [](const std::string& text, const std::string& algorithm) {
    const auto at = text.find("\n  " + algorithm + " ");
    return at != std::string::npos &&
           text.substr(at, text.find('\n', at + 1) - at).find('*') != std::string::npos;
  };
  const Outcome one = shell("$RONDO plan allreduce -p 8 --bytes 1M");
  CHECK(one.status == 0);
  for (const plan::Algorithm* algorithm : plan::supporting({Collective::allreduce, 8, 0, 0}))
    CHECK(one.out.find("\n  " + std::string(algorithm->name) + " ") != std::string::npos);
  CHECK(marked(one.out, "direct"));
  CHECK_FALSE(marked(one.out, "ring"));
  CHECK(one.out.find("1.75 MiB") != std::string::npos); // 2(p-1)/p n
  const Outcome oversubscribed = shell("$RONDO plan allreduce -p 16 --bytes 64 --oversubscribed");
  CHECK(marked(oversubscribed.out, "parameter_server"));
  const Outcome several = shell("$RONDO plan allreduce -p 16 --bytes 8,1M");
  CHECK((marked(several.out, "butterfly") && marked(several.out, "ring")));
  CHECK(marked(shell("$RONDO plan gather -p 4 --oversubscribed").out, "linear/3"));
  for (const Collective collective : kCollectives) {
    const Outcome outcome = shell("$RONDO plan " + std::string(name(collective)) + " -p 3");
    INFO(name(collective) << ": " << outcome.out << outcome.err);
    CHECK((outcome.status == 0) == (collective != Collective::sendrecv));
  }
}

/// Checks a benchmark's output: rows, no wrong element, footers. Returns the number of rows.
std::size_t expectGood(const Outcome& outcome) {
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  std::size_t rows = 0, verdicts = 0;
  for (const std::string& line : linesOf(outcome.out)) {
    if (line.find("# Out of bounds values : 0 OK") == 0) ++verdicts;
    if (line.rfind('#', 0) == 0) continue;
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    REQUIRE(words.size() == 13);
    CHECK(words[8] == "0");
    CHECK((words[12] == "0" || words[12] == "N/A"));
    ++rows;
  }
  CHECK(verdicts >= 1);
  return rows;
}

TEST_CASE("bench: every collective on every transport is right, with all algorithms", "[command]") {
  // The library's grids test the collectives; this tests the benchmark's code for each of them.
  const std::vector<std::string> transports{"inproc", "shm", "tcp"};
  for (std::size_t i = 0; i < std::size(kCollectives); ++i) {
    const Collective collective = kCollectives[i];
    for (const std::string& transport :
         kWholeGrid ? transports : std::vector{transports[i % transports.size()]}) {
      const Outcome outcome =
          shell("$RONDO bench " + std::string(name(collective)) +
                " -p 3 -n 1 -b 0 -e 64K -f 16 --algorithm all --transport " + transport);
      INFO(name(collective) << " on " << transport << ": " << outcome.err);
      const std::size_t rows = expectGood(outcome);
      CHECK(rows >= (collective == Collective::barrier ? 1u : 4u));
      CHECK(outcome.out.find(std::string("transport ") + transport) != std::string::npos);
    }
  }
}

TEST_CASE("the command accepts aliases of collectives", "[command]") {
  const Outcome one = shell("$RONDO plan broadcast -p 4 --algorithm tree");
  const Outcome other = shell("$RONDO plan bcast -p 4 --algorithm tree");
  CHECK(one.status == 0);
  CHECK(other.out == one.out);
  const Outcome bench = shell("$RONDO bench all_reduce -p 2 -n 1 -b 1K -e 1K");
  CHECK(expectGood(bench) == 1);
  const Outcome wrong = shell("$RONDO plan alreduce -p 4");
  CHECK(wrong.status != 0);
  CHECK(wrong.err.find("alreduce") != std::string::npos);
}

// Proves: ranks on machines of their own (here: network namespaces) meet, and get right results,
// over links that are much slower than the ranks; and that the links really are that slow, since
// otherwise the test would not show anything.
TEST_CASE("ranks with slow links get right results", "[command]") {
  const std::string network = RONDO_SOURCE_DIR "/tests/support/shaped_network ";
  if (const Outcome probe = shell(network + "--probe"); probe.status == 77) {
    WARN("skipped: " << probe.err);
    return;
  }
  const Outcome outcome = shell(network +
                                "--ranks 3 --mbit 200 -- $RONDO bench allreduce -b 1M -e 4M -n 2 "
                                "--algorithm ring,direct -f 4");
  INFO(outcome.err);
  CHECK(expectGood(outcome) == 4);
  CHECK(outcome.seconds > 2); // each rank sends 80 MiB at 25 MB/s
  for (const TransportInfo& transport : transports()) {
    if (transport.name != "ucx" || !transport.missing.empty()) continue;
    // UCX would use shared memory even so.
    const Outcome by_ucx =
        shell("RONDO_TRANSPORT=ucx RONDO_UCX_TLS=tcp " + network +
              "-- $RONDO bench allreduce -b 8 -e 1M -n 2 -f 512 --transport ucx");
    INFO(by_ucx.err);
    CHECK(expectGood(by_ucx) == 2);
  }
  CHECK(shell(network + "-- sh -c 'exit $RONDO_RANK'").status == 1);
}

// Proves: links that are slow to deliver, or lose packets, do not change results; and that the
// links under test really are late and lose packets.
TEST_CASE("ranks with links that delay or lose packets get right results", "[command]") {
  const std::string network = RONDO_SOURCE_DIR "/tests/support/shaped_network --ranks 3 --mbit 50 ";
  if (shell(network + "--probe").status == 77) return; // the test above reports it
  const auto bench = [&](const std::string& links, const std::string& most) {
    // On a busy machine, retransmissions of lost heartbeats may take longer than 3 seconds.
    Outcome outcome =
        shell("RONDO_HEARTBEAT=10 " + network + links + " -- $RONDO bench allreduce -b 8 -e " +
              most + " -f 4096 -n 10 -w 1 -z 1");
    const std::string said = std::exchange(outcome.err, "");
    INFO(outcome.out << said);
    CHECK(expectGood(outcome) >= 1);
    const std::string_view dropped = " frames, dropped ";
    REQUIRE(said.find(dropped) != std::string::npos);
    return std::pair(outcome.out, std::stoi(said.substr(said.find(dropped) + dropped.size())));
  };
  const auto [late, dropped] = bench("--delay 20", "8");
  CHECK(dropped == 0);
  std::istringstream words(linesOf(late.substr(late.find("\n  ") + 1)).front());
  double bytes = 0, elements = 0, microseconds = 0;
  std::string type, operation, root;
  words >> bytes >> elements >> type >> operation >> root >> microseconds;
  // Two of the three ranks wait 20 ms for a message of the rank that begins last.
  CHECK(microseconds > 13'000);
  CHECK(bench("--loss 3", "32K").second > 0);
}

// Proves: ranks that cannot reach rank 0's host at first try again. connect() then fails with other
// errors than for a port without a listener.
TEST_CASE("ranks wait for a host that cannot be reached at first", "[command]") {
  const std::string network = RONDO_SOURCE_DIR "/tests/support/shaped_network --ranks 3 ";
  if (shell(network + "--probe").status == 77) return; // the test above reports it
  // Rank 0's host does not answer ARP requests for two seconds. The others send one request, and
  // connect() fails after one second.
  const Outcome outcome = shell("RONDO=$RONDO " + network +
                                "-- sh -c 'net=/proc/sys/net/ipv4; if [ $RONDO_RANK = 0 ]; then "
                                "echo 8 > $net/conf/rail0/arp_ignore; "
                                "(sleep 2; echo 0 > $net/conf/rail0/arp_ignore) & "
                                "else echo 1 > $net/neigh/rail0/mcast_solicit; fi; "
                                "exec $RONDO bench allreduce -b 8 -e 8 -n 1 -w 1 -z 1'");
  INFO(outcome.err);
  CHECK(outcome.seconds > 1.5);
  CHECK(expectGood(outcome) == 1);
}

// Proves: every network interface that is named carries a share of the data. A rail that becomes
// slow, and then carries nothing, changes no result, delays no call by more than five seconds, and
// is reported once by each rank.
TEST_CASE("each rail carries a share, and replaces a rail that fails", "[command]") {
  const std::string network = RONDO_SOURCE_DIR "/tests/support/shaped_network --rails 2 ";
  if (shell(network + "--probe").status == 77) return; // the test above reports it
  const TemporaryFolder folder;
  const std::string settings = "RONDO_SOCKET_IFNAME==rail0,rail1 RONDO_TIMEOUT=5 RONDO_DEBUG=warn ";
  std::string changes; // of the network, as shell code
  const auto bench = [&](const std::string& links, const std::string& calls) {
    return shell(changes + settings + network + "--mbit 300 " + links +
                 " -- sh -c \"$RONDO bench allreduce -b 2M -e 2M -w 1 -z 1 -n " + calls + " 2>" +
                 folder.file("said") + ".\\$RONDO_RANK && cat /sys/class/net/rail*/statistics/" +
                 "tx_bytes >" + folder.file("sent") + ".\\$RONDO_RANK\" >" + folder.file("table") +
                 "\nSTATUS=$?\ncat " + folder.file("table") + "\nexit $STATUS\n");
  };
  CHECK(expectGood(bench("", "5")) == 1);
  for (const char* rank : {"0", "1"}) {
    std::istringstream sent(readFile(folder.file("sent.") + rank));
    double first = 0, second = 0; // at least 33 MB
    sent >> first >> second;
    CHECK(std::min(first, second) > 5e6);
  }
  // From the first call on, because a slow machine needs seconds to start the ranks.
  const std::string slow = folder.file("slow"), cut = folder.file("cut");
  const std::string table = folder.file("table");
  changes = "rm -f " + table + "\n(for TRY in $(seq 1000); do grep -qs algbw " + table +
            " && break; sleep 0.05; done\nsleep 1.5; touch " + slow + "; sleep 1.5; touch " + cut +
            ") &\n";
  const Outcome failing = bench("--change 1:2@" + slow + " --change 1:0@" + cut, "60");
  CHECK(expectGood(failing) == 1);
  CHECK(failing.seconds > 3);
  for (const char* rank : {"0", "1"}) {
    const auto said = linesOf(readFile(folder.file("said.") + rank));
    CAPTURE(said);
    // On a starved processor the other rail may be late once, too.
    CHECK(std::count_if(said.begin(), said.end(), [](const std::string& line) {
            return line.find("on rail 1 (10.213.1.") != std::string::npos &&
                   line.find("uses other rails now") != std::string::npos;
          }) == 1);
  }
}

// Proves: ranks detect that they share hosts; large calls between such hosts use composed
// algorithms; and hosts send each other as much as the closed form says, 2 (N-1) n for AllReduce,
// plus headers.
TEST_CASE("hosts send each other as many bytes as the closed form says", "[command]") {
  const std::string network = RONDO_SOURCE_DIR "/tests/support/shaped_network ";
  if (shell(network + "--probe").status == 77) return; // the test above reports it
  const auto sent = [&](const std::string& calls) {
    const std::string file = "/tmp/rondo_host_bytes." + std::to_string(::getpid());
    const Outcome outcome =
        shell("HOST_BYTES=" + file + " " + network +
              "--ranks 6 --per-host 2 --cyclic --mbit 2000 -- $RONDO bench allreduce -b 4M -e 4M "
              "-c 0 -w 1 -z 1 -n " +
              calls);
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    double bytes = 0;
    std::ifstream(file) >> bytes;
    std::remove(file.c_str());
    return bytes;
  };
  const double calls = (sent("11") - sent("1")) / (4 * 4194304.0); // each call: 2 (3-1) n
  CHECK(calls > 20);
  CHECK(calls < 21); // 10 more calls, each in place and out of place
}

TEST_CASE("plan: layouts are explained, compared and proved", "[command]") {
  const Outcome rounds =
      shell("$RONDO plan allreduce --algorithm hierarchical --layout 4x2 --rounds");
  CHECK(rounds.status == 0);
  CHECK(rounds.out.find("ranks 0 1, 2 3, 4 5, 6 7 on nodes 0 to 3; 6 n in all between nodes") !=
        std::string::npos);
  CHECK(rounds.out.find(" 0 => 2 [") != std::string::npos);
  const Outcome compared = shell("$RONDO plan --layout 0.1.0.1 --bytes 16M --tcp");
  CHECK(compared.out.find("between nodes") != std::string::npos);
  const Outcome proved = shell("$RONDO plan --check --layout all -p 1-4 --algorithm hierarchical");
  CHECK(proved.status == 0);
  CHECK(proved.out.find("all proved") != std::string::npos);
  CHECK(shell("$RONDO plan --layout 4x2 -p 7").err.find("has 8 ranks, not 7") != std::string::npos);
  CHECK(shell("$RONDO plan allreduce --algorithm hierarchical -p 4").status != 0);
}

TEST_CASE("bench: processes that read each other's buffers get the same results", "[command]") {
  for (const Collective collective : kCollectives) {
    if (collective == Collective::barrier) continue;
    const Outcome outcome = shell("$RONDO bench " + std::string(name(collective)) +
                                  " -p 3 -n 2 -b 768K -e 3M -f 4 --mapped --transport shm" +
                                  (kWholeGrid ? " --algorithm all" : ""));
    INFO(name(collective) << ": " << outcome.err);
    CHECK(expectGood(outcome) >= 2);
    CHECK(outcome.out.find("mapped buffers") != std::string::npos);
  }
}

TEST_CASE("bench: all types with all operators that they support", "[command]") {
  std::size_t valid = 0;
  for (const DataType type : kDataTypes) {
    for (const ReduceOp op : kReduceOps) valid += op.supports(type) ? 1 : 0;
  }
  for (const int ranks : kWholeGrid ? std::vector<int>{1, 2, 5} : std::vector<int>{1, 2}) {
    const Outcome outcome = shell(
        "$RONDO bench allreduce --threads -n 1 -b 4K -e 4K -d all -o all "
        "-p " +
        std::to_string(ranks));
    CHECK(expectGood(outcome) == valid);
    if (ranks == 1) CHECK(outcome.out.find("n/a") != std::string::npos);
  }
}

TEST_CASE("bench: roots, groups, non-blocking calls, deterministic mode, steps", "[command]") {
  CHECK(expectGood(shell("$RONDO bench broadcast -p 3 -n 2 -b 8 -e 8 -r -1")) == 3);
  CHECK(expectGood(shell("$RONDO bench allreduce -p 3 -n 4 -b 1K -e 1K -m 3")) == 1);
  CHECK(expectGood(shell("$RONDO bench allreduce -p 3 -n 100 -b 1K -e 256K -f 256 -z 0")) == 2);
  CHECK(expectGood(shell("$RONDO bench sendrecv -p 3 -n 100 -b 1K -e 256K -f 256 -z 0 -m 2")) == 2);
  CHECK(expectGood(shell("$RONDO bench reduce -p 3 -n 2 -b 8 -e 32 -i 8 --deterministic")) == 4);
  CHECK(expectGood(shell("$RONDO bench allreduce -p 2 -b 8 -e 8 -c 0 -n 1 -a 3 2>&1 | "
                         "sed 's/N\\/A$/0/; s/N\\/A /0 /'")) == 1);
}

TEST_CASE("bench: as a rank of a launcher, and JSON", "[command]") {
  TemporaryFolder folder;
  const std::string path = folder.file("result.json");
  const Outcome outcome =
      shell("$RONDO run -p 3 -- $RONDO bench allgather -n 1 -b 0 -e 1K -J " + path);
  const std::size_t rows = expectGood(outcome);
  const auto json = nlohmann::json::parse(readFile(path));
  CHECK(json.at("results").size() == rows);
  CHECK(json.at("config").at("ranks") == 3);
  CHECK(json.at("results").at(0).at("count") == 0);
  CHECK(json.at("results").at(1).at("count") == 1);
  CHECK(json.at("out_of_bounds").at("okay") == true);
  CHECK(json.at("args").at(0) == "bench");
  CHECK(shell("$RONDO run -p 2 -- $RONDO bench allreduce -p 3 -n 1 -e 8").status == 2);
  const Outcome unwritable = shell("$RONDO bench allreduce -n 1 -e 8 -J /no/such/folder/x");
  CHECK(unwritable.status == 3);
  CHECK(unwritable.err.find("/no/such/folder/x") != std::string::npos);
  CHECK(unwritable.out == ""); // the error comes before the measurement
}

TEST_CASE("bench: a killed rank ends all, and every survivor names it", "[command]") {
  for (const char* transport : {"shm", "tcp"}) {
    for (int victim = 0; victim < 4; ++victim) {
      INFO(transport << ", rank " << victim);
      const std::string rank = std::to_string(victim);
      TemporaryFolder folder;
      // Rank 0 prints the titles after the ranks have met. The launcher's variables identify the
      // ranks' processes.
      const Outcome outcome = shell(
          "export ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS\n" // to end in 5 s
          "$RONDO bench allreduce -p 4 -b 4K -e 4K -n 100000000 --transport " +
              std::string(transport) + " >" + folder.file("table") +
              " &\nJOB=$!\nuntil grep -q algbw " + folder.file("table") +
              "; do sleep 0.05; done\nsleep 0.5\n" + killRank(victim) + "wait $JOB",
          60);
      CHECK(outcome.status == 128 + 9);
      for (int survivor = 0; survivor < 4; ++survivor) {
        if (survivor == victim) continue;
        const std::string start = "rondo: rank " + std::to_string(survivor) + ": peer_dead: ";
        bool named = false;
        for (const std::string& line : linesOf(outcome.err)) {
          named = named || (line.find(start) == 0 &&
                            line.find("rank " + rank, start.size()) != std::string::npos);
        }
        CHECK(named);
      }
      CHECK(outcome.err.find("rondo: rank " + rank + " (pid ") != std::string::npos);
      CHECK(outcome.err.find("still running") == std::string::npos);
    }
  }
}

} // namespace
} // namespace rondo::test
