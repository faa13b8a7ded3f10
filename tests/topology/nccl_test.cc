// Reads NCCL's topology files.
#include <string>

#include "rondo/error.h"
#include "support/test.h"
#include "topology/hwloc_file.h"
#include "topology/link.h"

namespace rondo::test {
namespace {

using namespace topology;

/// Two packages, each with a PCI switch above a GPU and a card, and a GPU of its own; all GPUs on
/// NVLink switches, as NCCL writes it.
std::string nodeOf(const std::string& link) {
  std::string text = "<system version=\"1\">\n";
  for (int cpu = 0; cpu < 2; ++cpu) {
    const std::string n = std::to_string(cpu);
    const std::string gpu = "sm=\"90\" gdr=\"1\">" + link + "</gpu></pci>\n";
    text += "<cpu host_hash=\"0x1\" numaid=\"" + n + "\" affinity=\"" +
            (cpu == 0 ? "0000000f" : "000000f0") + "\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n" +
            "<pci busid=\"0000:" + n +
            "6:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\">\n"
            "<pci busid=\"0000:" +
            n +
            "8:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\"><gpu dev=\"" +
            std::to_string(2 * cpu) + "\" " + gpu + "<pci busid=\"0000:" + n +
            "9:00.0\" class=\"0x020000\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\"><nic><net name=\"mlx5_" +
            n + "\" dev=\"" + n +
            "\" speed=\"400000\" port=\"1\"/></nic></pci>\n</pci>\n"
            "<pci busid=\"0000:" +
            n +
            "a:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" "
            "link_width=\"8\"><gpu dev=\"" +
            std::to_string(2 * cpu + 1) + "\" " + gpu + "</cpu>\n";
  }
  return text + "</system>\n";
}

const std::string kSwitches =
    "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string complaint(const std::string& text) {
  try {
    parseMachine(text, "topo.xml");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

} // namespace

TEST_CASE("NCCL's topology: packages, processors, GPUs, cards, and the speeds of their links") {
  const Machine machine = parseMachine(nodeOf(kSwitches), "h100.xml");
  CHECK(machine.name == "h100");
  CHECK(machine.all(Kind::package).size() == 2);
  CHECK(machine.processors().size() == 8);
  REQUIRE(machine.all(Kind::gpu).size() == 4);
  const Object& first = machine.at(machine.all(Kind::gpu)[0]);
  CHECK(first.name == "gpu0");
  CHECK(first.aliases.front() == "0000:08:00.0");
  CHECK(first.gbs == Approx(32.0 * 16 / 8 * 128 / 130));
  CHECK(machine.at(first.parent).kind == Kind::bridge);
  CHECK(machine.at(machine.all(Kind::gpu)[1]).gbs == Approx(16.0 * 8 / 8 * 128 / 130));
  const Object& card = machine.at(machine.device(Kind::card, "mlx5_1"));
  CHECK(card.gbs == Approx(50));
  CHECK(card.processors == Processors{4, 5, 6, 7});
  REQUIRE(machine.nvlinks.size() == 6); // all pairs
  for (const NvLink& link : machine.nvlinks) {
    CHECK(link.switched);
    CHECK(link.links == 18);
    CHECK(link.gbs == 25);
  }
}

TEST_CASE("NCCL's topology: direct links, and files that name only PCI classes") {
  const std::string two =
      "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ff\">"
      "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\">"
      "<gpu dev=\"0\" sm=\"80\"><nvlink target=\"0002:00:00.0\" count=\"12\" tclass=\"0x030200\"/>"
      "</gpu></pci>"
      "<pci busid=\"0002:00:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\">"
      "<gpu dev=\"1\" sm=\"80\"><nvlink target=\"0001:00:00.0\" count=\"12\" tclass=\"0x030200\"/>"
      "</gpu></pci></cpu></system>";
  const Machine machine = parseMachine(two, "f");
  CHECK(machine.nvlinks == std::vector<NvLink>{{0, 1, 12, false, 25}});
  CHECK(machine.at(machine.all(Kind::gpu)[0]).gbs == 0); // unknown
  // Proves: a file of a job on some of a machine's GPUs, whose links to the others it has, is read.
  const std::string to_other =
      "<nvlink target=\"0003:00:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu>";
  CHECK(parseMachine(changed(changed(two, "</gpu>", to_other), "</gpu></pci></cpu>",
                             to_other + "</pci></cpu>"),
                     "f")
            .nvlinks == machine.nvlinks);
  const Machine plain = parseMachine(
      "<system version=\"1\"><cpu numaid=\"0\" affinity=\"3\">"
      "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
      "<pci busid=\"0101:00:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
      "</cpu></system>",
      "f");
  CHECK(plain.all(Kind::gpu).size() == 1);
  CHECK(plain.all(Kind::card).size() == 1);
}

TEST_CASE("NCCL's topology: NVLinks to a CPU of POWER9 connect no GPUs") {
  const Machine machine = parseMachine(
      nodeOf("<nvlink target=\"0004:04:00.0\" count=\"3\" tclass=\"0x068001\"/>"), "f");
  CHECK(machine.all(Kind::gpu).size() == 4);
  CHECK(machine.nvlinks.empty());
}

TEST_CASE("NCCL's topology: a damaged file is refused with its line") {
  const std::string good = nodeOf(kSwitches);
  const std::pair<std::string, const char*> refused[] = {
      {changed(good, "version=\"1\"", "version=\"2\""), "topo.xml:1: "},
      {"<system version=\"1\"/>", "topo.xml:1: it has no cpu"},
      {changed(good, "<cpu", "<cup"), "topo.xml:"},
      {changed(good, "0000000f", "zz"), "topo.xml:2: 'affinity'"},
      {changed(good, "000000f0", "0000000f"), "topo.xml:9: it has processors that another cpu has"},
      {changed(good, "host_hash=\"0x1\"", "host_hash=\"0x2\""),
       "topo.xml:9: a cpu of a second host"},
      {changed(good, "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu",
               "link_speed=\"nan\" link_width=\"16\"><gpu"),
       "topo.xml:4: 'link_speed' is \"nan\""},
      {changed(good, "speed=\"400000\"", "speed=\"0\""), "topo.xml:5: 'speed' is \"0\""},
      {changed(good, "speed=\"400000\"", "speed=\"-1\""), "topo.xml:5: 'speed' is \"-1\""},
      {changed(good, "speed=\"400000\"", "speed=\"1e300\""), "topo.xml:5: 'speed' is \"1e300\""},
      {changed(good, "count=\"18\"", "count=\"0\""), "topo.xml:4: "},
      {changed(good, kSwitches, "<nvlink target=\"0000:09:00.0\" count=\"2\"/>"),
       "topo.xml:4: the target \"0000:09:00.0\" is no GPU"},
      {changed(good, "0000:0a:00.0", "0000:08:00.0"),
       "topo.xml:7: PCI device \"0000:08:00.0\" is de"},
      {changed(good, "mlx5_1", "mlx5_0"), "\"mlx5_0\" is defined twice"},
      {changed(good, "<nic>", "<nick>"), "topo.xml:"},
      {changed(good, "</system>", ""), "topo.xml:"}};
  for (const auto& [text, wanted] : refused) {
    const std::string got = complaint(text);
    INFO(wanted << "\n" << got);
    CHECK(got.find(wanted) != std::string::npos);
  }
  const std::string direct = nodeOf("<nvlink target=\"0000:08:00.0\" count=\"2\"/>");
  CHECK(complaint(direct).find("topo.xml:4: a GPU is linked to itself") != std::string::npos);
}

} // namespace rondo::test
