// `rondo topo`: this machine, machine files, drawings, and errors in files.
#include <fstream>
#include <string>

#include "base/xml.h"
#include "support/paths.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

const std::string kData = std::string(RONDO_SOURCE_DIR) + "/tests/topology/data/";

std::string wholeFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("topo: this machine is drawn", "[topo]") {
  const Outcome outcome = shell("$RONDO topo");
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("package 0") != std::string::npos);
}

TEST_CASE("topo: a running job's ranks, their links and transports are drawn", "[topo]") {
  const TemporaryFolder folder;
  const std::string svg = folder.file("j.svg");
  const Outcome outcome = shell("$RONDO topo -p 3 --svg " + svg);
  REQUIRE(outcome.status == 0);
  // Each rank is bound to one core; the description shows the whole machine.
  const std::string machine = shell("$RONDO topo").out;
  CHECK(outcome.out.find(machine.substr(0, machine.find('\n') + 1)) == 0);
  CHECK(outcome.out.find("  rank 2: processor") != std::string::npos);
  CHECK(countOf(outcome.out, " shm") == 6);
  CHECK(base::parseXml(wholeFile(svg), svg).name == "svg");
  const Outcome nodes = shell(
      "$RONDO run -p 4 -- sh -c 'RONDO_NODE=n$((RONDO_RANK / 2)) exec '$RONDO' topo -p 4 --svg " +
      svg + "'");
  REQUIRE(nodes.status == 0);
  CHECK(countOf(nodes.out, "net tcp") == 8);
  CHECK(countOf(nodes.out, " shm") == 4);
  CHECK(countOf(wholeFile(svg), "class=\"node\"") == 2);
  CHECK(nodes.out.find(" (n1): ") != std::string::npos);
}

TEST_CASE("topo: a machine file is drawn as text and as SVG", "[topo]") {
  const TemporaryFolder folder;
  const std::string svg = folder.file("m.svg");
  const Outcome outcome = shell("$RONDO topo --file " + kData + "dgx.xml -p 8 --svg " + svg);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.empty());
  for (const char* line :
       {"dgx: 2 packages, 2 NUMA nodes, 112 cores, 112 processors, 2 TiB, 8 GPUs, 10 network cards",
        "  L3 105 MiB: cores 0-55, processors 56-111, L2 2 MiB each",
        "    PCIe switch 0000:16:00.0\n      mlx5_0  MT2910 Family [ConnectX-7], 0000:18:00.0, "
        "ib0, "
        "rail 0\n      gpu0    NVIDIA H100 80GB HBM3, 0000:1b:00.0, nvml0\n",
        "rank 5   package 1, processors 57, gpu5, mlx5_5 (rail 5)\n",
        "  NVS18 NVLink, 18 to the NVSwitches\n"}) {
    CAPTURE(line);
    CHECK(outcome.out.find(line) != std::string::npos);
  }
  const std::string drawing = wholeFile(svg);
  CHECK(base::parseXml(drawing, svg).name == "svg");
  CHECK(countOf(drawing, "class=\"gpu\"") == 8);
  CHECK(countOf(drawing, "class=\"card\"") == 10);
  CHECK(countOf(drawing, "class=\"core taken\"") == 8);
  CHECK(countOf(drawing, ">NVS18<") == 8 * 7 + 1);
}

TEST_CASE("topo: files of each version of hwloc are drawn, ranks on allowed processors") {
  for (const char* version : {"1", "2", "3"}) {
    CAPTURE(version);
    const std::string topo = "$RONDO topo --file " + kData + "small_" + version + ".xml ";
    const Outcome outcome = shell(topo + "-p 8");
    REQUIRE(outcome.status == 0);
    CHECK(outcome.out.find("small: 2 packages, 2 NUMA nodes, 4 cores, 8 processors (6 allowed)") ==
          0);
    CHECK(outcome.out.find("rank 7   package 0, processors 2-3, mlx5_") != std::string::npos);
    const Outcome listed = shell(topo + "-p 2 --bind 5,6");
    CHECK(listed.status == 2);
    CHECK(listed.err.find("ranks cannot be bound to processors 6: programs may use 0-5 of small") !=
          std::string::npos);
  }
}

TEST_CASE("topo: a job of several nodes is drawn node by node", "[topo]") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("$RONDO topo --file " + kData + "job.xml -p 16 --svg " + folder.file("j.svg"));
  REQUIRE(outcome.status == 0);
  CHECK(outcome.out.find("4 nodes (n0 to n3), each a gpu-node: 2 packages") == 0);
  CHECK(outcome.out.find("\n  rail a network, cards of rail a\n") != std::string::npos);
  CHECK(countOf(wholeFile(folder.file("j.svg")), "class=\"node\"") == 4);
}

TEST_CASE("topo: a damaged file is an error with file, line and reason", "[topo]") {
  const TemporaryFolder folder;
  const std::string xml = folder.file("m.xml"), links = folder.file("m.links");
  const std::string good = wholeFile(kData + "job.xml");
  std::ofstream(xml) << good.substr(0, good.size() / 2);
  const Outcome torn = shell("$RONDO topo --file " + xml);
  CHECK(torn.status == 2);
  CHECK(torn.out.empty());
  CHECK(torn.err.find(xml + ":") != std::string::npos);
  std::ofstream(xml) << good;
  std::ofstream(links) << "rondo-links 1\nnodes a b\nrail 0 mlx5_7\n";
  const Outcome rail = shell("$RONDO topo --file " + xml);
  CHECK(rail.status == 2);
  CHECK(rail.err.find(links + ":3: rail \"0\": there is no network card \"mlx5_7\"") !=
        std::string::npos);
  CHECK(shell("$RONDO topo --bind cores").status == 2);
}

} // namespace
} // namespace rondo::test
