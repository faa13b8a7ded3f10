// Runs `rondo tune`; tests its fits.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/processors.h"
#include "model/profile_file.h"
#include "planner/decide.h"
#include "rondo/error.h"
#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/tune_fit.h"
#include "tools/tune_measure.h"
#include "tools/tune_rules.h"
#include "topology/system.h"

namespace rondo::test {
namespace {

using namespace tools;

TEST_CASE("tune: a fit reproduces a link that it is given the times of", "[tune]") {
  const model::LinkProfile& truth = model::defaultProfile().link(model::LinkClass::shm);
  std::vector<LinkSample> samples;
  for (const double bytes : {8.0, 1024.0, 16384.0, 131072.0})
    samples.push_back({bytes, halfTrip(truth, bytes), 0.06e-6});
  const model::LinkProfile fitted = fitLink(samples, truth);
  for (const double bytes : {8.0, 500.0, 1024.0, 5000.0, 16384.0, 1e5, 131072.0, 1e6}) {
    INFO(bytes);
    CHECK(halfTrip(fitted, bytes) == Approx(halfTrip(truth, bytes)).epsilon(0.01));
  }
  CHECK(fitted.send_overhead == Approx(0.06e-6));
  CHECK(fitted.depth == truth.depth);
  CHECK_THROWS_AS(fitLink({{8, 1, 1}}, truth), Error);
  CHECK_THROWS_AS(fitLink({{8, 1, 1}, {16, 0, 1}}, truth), Error);
}

TEST_CASE("tune: measured times that fall with the size are smoothed", "[tune]") {
  CHECK(neverFalling({1, 3, 2, 4}) == std::vector<double>{1, 2.5, 2.5, 4});
  CHECK(neverFalling({4, 3, 2, 1}) == std::vector<double>{2.5, 2.5, 2.5, 2.5});
  const model::LinkProfile link =
      fitLink({{8, 5, 1}, {64, 4, 1}, {512, 9, 1}}, model::LinkProfile{});
  double before = 0;
  for (double bytes = 1; bytes < 1e6; bytes *= 1.5) {
    CHECK(halfTrip(link, bytes) >= before);
    before = halfTrip(link, bytes);
  }
  const model::Levels levels = fitLevels({{1024, 2e-10}, {2048, 1e-10}});
  CHECK(levels.at(1024) == Approx(1.5e-10));
  const model::Residual residual = residualOf("x", {{1, 1}, {1, 2}, {3, 2}});
  CHECK(residual.median == 0.5);
  CHECK(residual.worst == 0.5);
}

TEST_CASE("tune: writes a profile that can be read, and a drawing with all points", "[tune]") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("$RONDO tune --seconds 0.2 --transports inproc,tcp -o " + folder.file("p.json") +
                " --plot " + folder.file("p.svg") +
                " && $RONDO plan allreduce -p 2 --explain --profile " + folder.file("p.json"),
            500); // seconds: two threads yield to each other, and other tests take turns in between
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.empty()); // it was made on this machine
  const model::Profile profile = model::readProfile(folder.file("p.json"));
  CHECK(profile.machine == model::machineKey());
  CHECK(profile.residuals.size() == 6);
  CHECK(profile.source.ends_with("; shm, ucx, network, nvlink, pcie as in the default profile"));
  CHECK(halfTrip(profile.link(model::LinkClass::inproc), 8) > 0);
  const std::string svg = readFile(folder.file("p.svg"));
  CHECK(countOf(svg, "<polyline") == 2);
  CHECK(countOf(svg, "<circle") == 2 * 8 + 2);
  CHECK(svg.find(">loopback</text>") != std::string::npos);
  const Outcome refused = shell("$RONDO tune --transports nvlink");
  CHECK(refused.status == 2);
  CHECK(refused.err.find("valid: inproc, shm, tcp, ucx") != std::string::npos);
}

// Proves: joined files are one rules file with the lines of all, in order.
TEST_CASE("tune --rules: the columns are named once", "[tune]") {
  const std::string columns = "collective,algorithm\n";
  CHECK(joinedRules({"# a\n" + columns + "allreduce,ring\n", "# b\n" + columns,
                     "# c\n" + columns + "# 8 bytes\nreduce,tree\n"}) ==
        "# a\n" + columns + "allreduce,ring\n# b\n# c\n# 8 bytes\nreduce,tree\n");
}

// Proves: the command measures all 8 collectives for each number of ranks, calls can use its file,
// and nothing is left beside it. A file that exists stays as it is.
TEST_CASE("tune --rules: writes a rules file for all collectives", "[tune]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("r.csv");
  const std::string command = "$RONDO tune --transports shm -e 8 -p 1-2 --rules " + file;
  const Outcome outcome = shell(command + " && RONDO_RULES_FILE=" + file +
                                " $RONDO plan allreduce -p 2 --bytes 8 --explain");
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const std::string text = readFile(file);
  for (const Collective collective : planner::kDecided) {
    INFO(name(collective));
    CHECK(countOf(text, " bench " + std::string(name(collective)) + " --rules: 2 ranks") == 1);
    CHECK(countOf(text, " bench " + std::string(name(collective)) + " --rules: 1 rank ") == 1);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  const Outcome again = shell(command);
  CHECK(again.status == 2);
  CHECK(again.err.find("exists; remove it") != std::string::npos);
  CHECK(readFile(file) == text);
}

TEST_CASE("tune --rules: what cannot be measured is refused before anything is", "[tune]") {
  const TemporaryFolder folder;
  const std::string command = "$RONDO tune --rules " + folder.file("r.csv");
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const Outcome outcome = shell(command + arguments);
    INFO(arguments << outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(why) != std::string::npos);
  };
  refused(" --transports shm", "requires --ranks");
  refused(" -p 2", "name one transport");
  refused(" -p 2 --transports inproc", "valid: shm, tcp, ucx");
  refused(" -p 0 --transports shm", "--ranks");
  refused(" -p 2 --transports shm -o p.json", "excludes");
  const Outcome launched = shell("$RONDO run -n 1 -- " + command + " -p 2 --transports shm");
  CHECK(launched.status == 2);
  CHECK(launched.err.find("under a launcher use `rondo bench --rules`") != std::string::npos);
}

// Proves: a profile of links between processors is not made of ranks that share one.
TEST_CASE("tune: a process with one processor stores no profile of the machine", "[tune]") {
  const TemporaryFolder folder;
  const std::string tune =
      "XDG_CACHE_HOME=" + folder.path() + " $RONDO tune --seconds 0.1 --transports inproc";
  Outcome refused, warned;
  std::thread([&] {
    base::bindThread({base::ownProcessors().front()});
    refused = shell(tune);
    warned = shell(tune + " -o " + folder.file("p.json"), 500);
  }).join();
  INFO(refused.err << warned.err);
  CHECK(refused.status != 0);
  CHECK(refused.err.find("may use only one processor") != std::string::npos);
  CHECK(!std::filesystem::exists(folder.file("rondo")));
  CHECK(warned.status == 0);
  CHECK(warned.err.find("warning: the two ranks share the only processor") != std::string::npos);
  CHECK(
      model::readProfile(folder.file("p.json")).source.ends_with("; two ranks shared a processor"));
}

TEST_CASE("tune: the two ranks get processors as RONDO_BIND=core gives them", "[tune]") {
  const TemporaryFolder folder;
  for (const int cpu : {0, 1, 2, 3}) {
    const std::filesystem::path own =
        folder.file("devices/system/cpu/cpu" + std::to_string(cpu) + "/topology");
    std::filesystem::create_directories(own);
    std::ofstream(own / "physical_package_id") << "0\n";
    std::ofstream(own / "core_id") << cpu / 2 << "\n";
    std::ofstream(own / "thread_siblings_list") << (cpu < 2 ? "0-1\n" : "2-3\n");
  }
  using Places = std::vector<base::Processors>;
  const auto placed = [&](const base::Processors& allowed) {
    return placesOfPair(topology::systemMachine(allowed, folder.path()), allowed);
  };
  CHECK(placed({0, 1, 2, 3}) == Places{{0, 1}, {2, 3}});
  CHECK(placed({0, 1}) == Places{{0, 1}, {0, 1}});
  CHECK(sharedBy(placed({0, 1, 2, 3})).empty());
  CHECK(sharedBy(placed({1, 2})).empty());
  CHECK(sharedBy(placed({2, 3})) == "core");
  CHECK(sharedBy(placed({3})) == "processor");
}

} // namespace
} // namespace rondo::test
