// Errors in a machine file are reported with file, line and reason.
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rondo/error.h"
#include "support/caught.h"
#include "support/paths.h"
#include "support/test.h"
#include "topology/hwloc_file.h"

namespace rondo::test {
namespace {

using namespace topology;

std::string dataFile(const std::string& name) {
  std::ifstream file(std::string(RONDO_SOURCE_DIR) + "/tests/topology/data/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  REQUIRE(!text.str().empty());
  return text.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string complaint(const std::function<void()>& body) {
  const Caught error = caught(body);
  CHECK(error.code == ErrorCode::invalid_argument);
  return error.text;
}

/// The first line of a text that contains a word.
std::string lineOf(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  REQUIRE(at != std::string::npos);
  return std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
}

} // namespace

TEST_CASE("damaged XML is refused with line and reason") {
  const std::string good = dataFile("job.xml");
  struct Damage {
    std::string from, to, reason;
  };
  const std::vector<Damage> damages{
      {"version=\"2.0\"", "version=\"4.0\"", "version \"4.0\"; valid: version=\"2.0\""},
      {"version=\"2.0\"", "version=\"\"", "version \"\""},
      {"<object type=\"PU\" os_index=\"3\"", "<objekt type=\"PU\" os_index=\"3\"",
       "unknown element <objekt>"},
      {"type=\"Package\"", "type=\"Parcel\"", "unknown type of object \"Parcel\""},
      {"type=\"Package\"", "typ=\"Package\"", "has no attribute 'type'"},
      {"type=\"Package\" os_index=\"0\"", "type=\"Package\" os_index=\"x\"", "'os_index'"},
      {"type=\"Package\" os_index=\"0\" cpuset=\"0x000000ff\"",
       "type=\"Package\" os_index=\"0\" cpuset=\"0x00zz00ff\"", "is no mask of processors"},
      {"type=\"Package\" os_index=\"0\" cpuset=\"0x000000ff\"",
       "type=\"Package\" os_index=\"0\" cpuset=\"0x000100ff\"", "that its parent does not have"},
      {"allowed_cpuset=\"0x0000ffff\"", "allowed_cpuset=\"0xffff0000\"",
       "'allowed_cpuset' has none of the machine's processors"},
      {"allowed_cpuset=\"0x0000ffff\"", "allowed_cpuset=\"\"", "is no mask of processors"},
      {"type=\"L2Cache\"", "type=\"LxCache\"", "unknown type of object \"LxCache\""},
      {"type=\"PU\" os_index=\"3\"", "type=\"PU\" os_index=\"4\"", "PU 4 has the mask of"},
      {"type=\"PU\" os_index=\"3\"", "type=\"PU\" os_index=\"4294967299\"", "'os_index'"},
      {"type=\"Package\" os_index=\"0\"", "type=\"Package\" os_index=\"2147483648\"", "'os_index'"},
      {"bridge_type=\"0-1\"", "bridge_type=\"0-7\"", "unknown bridge_type \"0-7\""},
      {"bridge_pci=\"0000:[31-36]\"", "bridge_pci=\"0000:31\"", "is no span of buses"},
      {"pci_type=\"0302 [10de:20b2]", "pci_type=\"GPU [10de:20b2]", "pci_type"},
      {"<info name=\"OSName\"", "<info name=OSName", "has no end in quotes"},
      {"<info name=\"OSName\"", "<info name=\"&oops;\"", "unknown entity"},
      {"</topology>", "</top>", "</top> ends here, but <topology> of line 3 is open"},
      {"</topology>", "</topology><topology/>", "there is text after the last element"},
  };
  for (const Damage& damage : damages) {
    CAPTURE(damage.from, damage.to);
    const std::string bad = replaced(good, damage.from, damage.to);
    const std::string text = complaint([&] { parseMachine(bad, "job.xml"); });
    CHECK(text.find("job.xml:" + lineOf(bad, damage.to) + ": ") == 0);
    CHECK(text.find(damage.reason) != std::string::npos);
  }
}

TEST_CASE("damaged XML of hwloc 1 and 3 is refused with line and reason") {
  struct Damage {
    std::string file, from, to, reason;
  };
  const std::vector<Damage> damages{
      {"small_1.xml", "type=\"Socket\"", "type=\"Sock\"", "unknown type of object \"Sock\""},
      {"small_1.xml", "depth=\"3\"", "depth=\"x\"", "unknown type of object \"LxCache\""},
      {"small_1.xml", "depth=\"3\"", "deep=\"3\"", "unknown type of object \"LCache\""},
      {"small_1.xml", "<object type=\"Machine\"", "<object typ=\"Machine\"",
       "has no attribute 'type'"},
      {"small_1.xml", "\"NUMANode\" os_index=\"1\" cpuset=\"0x000000f0\"",
       "\"NUMANode\" os_index=\"1\" cpuset=\"0x00000030\"",
       "Package has processors that its parent does not have"},
      {"small_3.xml", "<memtier", "<tier", "unknown element <tier>"},
      {"small_3.xml", "osdev_type=\"48\"", "osdev_type=\"Network\"", "'osdev_type'"},
      {"small_3.xml", "</topology>", "<object type=\"Machine\" cpuset=\"0x1\"/></topology>",
       "a second machine"},
  };
  for (const Damage& damage : damages) {
    CAPTURE(damage.file, damage.from, damage.to);
    const std::string bad = replaced(dataFile(damage.file), damage.from, damage.to);
    const std::string text = complaint([&] { parseMachine(bad, "f"); });
    CAPTURE(text);
    // The package is on the line after its node's page sizes.
    const auto line = std::stoi(lineOf(bad, damage.to)) + (damage.reason[0] == 'P' ? 2 : 0);
    CHECK(text.find("f:" + std::to_string(line) + ": ") == 0);
    CHECK(text.find(damage.reason) != std::string::npos);
  }
}

TEST_CASE("a truncated file is refused, wherever it ends") {
  for (const char* name : {"job.xml", "small_1.xml", "small_3.xml"}) {
    const std::string good = dataFile(name);
    const std::size_t last = good.rfind("</topology>");
    for (std::size_t length = 0; length < last + 10; length += 97) {
      CAPTURE(name, length);
      const std::string bad = good.substr(0, length);
      const std::string text = complaint([&] { parseMachine(bad, name); });
      const auto lines = 1 + std::count(bad.begin(), bad.end(), '\n');
      CHECK(text.find(name + (":" + std::to_string(lines) + ": ")) == 0);
    }
  }
  CHECK(complaint([] { parseMachine("\n<machine/>", "x"); }) ==
        "x:2: the outermost element is <machine>; valid: hwloc's <topology>, NCCL's <system>");
  complaint([] { parseMachine(std::string(2000, 'x'), "x"); });
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "<object>";
  CHECK(complaint([&] { parseMachine(deep, "x"); }).find("more than 256 deep") !=
        std::string::npos);
}

TEST_CASE("a damaged links file is refused with line and reason") {
  const std::string xml = dataFile("job.xml");
  const std::vector<std::pair<std::string, std::string>> damages{
      {"", "f:1: the file is empty"},
      {"rondo-links 2\n", "f:1: the first line is \"rondo-links 2\"; valid: \"rondo-links 1\""},
      {"\n# a word\nnodes a\n", "f:3: the first line is \"nodes a\""},
      {"rondo-links 1\nnvlinks gpu0 gpu1 4\n",
       "f:2: unknown key \"nvlinks\"; valid: nodes, "
       "nvlink, nvswitch, rail; did you mean nvlink?"},
      {"rondo-links 1\nrail a mlx5_9\n",
       "f:2: rail \"a\": there is no network card \"mlx5_9\"; there are mlx5_0, mlx5_1"},
      {"rondo-links 1\nrail a mlx5_0\nrail a mlx5_1\n", "f:3: rail \"a\" is defined twice"},
      {"rondo-links 1\nrail a mlx5_0\nrail b ib0\n", "f:3: card mlx5_0 is in rail \"a\" already"},
      {"rondo-links 1\nnvlink gpu0 gpu9 4\n",
       "f:2: there is no GPU \"gpu9\"; there are gpu0, gpu1, gpu2, gpu3"},
      {"rondo-links 1\nnvlink gpu0 gpu1\n",
       "f:2: 'nvlink' is incomplete or too long; valid: "
       "nvlink GPU GPU COUNT"},
      {"rondo-links 1\nnvlink gpu0 gpu1 0\n", "f:2: the number of links"},
      {"rondo-links 1\nnvlink gpu1 gpu1 4\n", "f:2: a GPU is linked to itself"},
      {"rondo-links 1\nnvswitch 6 gpu0 gpu1\nnvlink gpu1 gpu0 4\n",
       "f:3: gpu0 and gpu1 are linked twice"},
      {"rondo-links 1\nnodes a b a\n", "f:2: two nodes have the same name"},
      {"rondo-links 1\nnodes a\nnodes b\n", "f:3: the nodes are named twice"},
  };
  for (const auto& [text, reason] : damages) {
    CAPTURE(text);
    Machine machine = parseMachine(xml, "job.xml");
    CHECK(complaint([&, text = text] { addLinks(machine, text, "f"); }).find(reason) == 0);
  }
}

TEST_CASE("a missing file is an error that names it") {
  const Caught error = caught([] { readMachine("/no/such/machine.xml"); });
  CHECK(error.code == ErrorCode::system);
  CHECK(error.text.find("/no/such/machine.xml") != std::string::npos);
}

} // namespace rondo::test
