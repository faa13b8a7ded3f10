// This machine by hwloc and by /sys; the /sys of other machines; NVML's links; bindings of ranks.
#include "topology/system.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "rondo/error.h"
#include "support/caught.h"
#include "support/data_files.h"
#include "support/paths.h"
#include "support/test.h"
#include "topology/bind.h"
#include "topology/hwloc_file.h"
#include "topology/link.h"
#include "topology/nvml.h"
#include "topology/wire.h"

namespace {

/// While it is set, the kernel of a machine with 4096 possible processors, of which this process
/// may use some, is in place of the system's.
constexpr std::size_t kBytesFor4096 = 4096 / 8;
std::atomic<bool> has_4096{false};
rondo::base::Processors bound_4096;
const rondo::base::Processors kAllowed4096{3, 2000, 2001};

} // namespace

extern "C" int sched_getaffinity(pid_t thread, std::size_t bytes, cpu_set_t* set) noexcept {
  if (!has_4096) {
    const long got = ::syscall(SYS_sched_getaffinity, thread, bytes, set);
    if (got > 0) std::memset(reinterpret_cast<char*>(set) + got, 0, bytes - std::size_t(got));
    return got < 0 ? -1 : 0;
  }
  if (bytes < kBytesFor4096) return errno = EINVAL, -1;
  std::memset(set, 0, bytes);
  for (const int one : bound_4096) CPU_SET_S(one, bytes, set);
  return 0;
}

extern "C" int sched_setaffinity(pid_t thread, std::size_t bytes, const cpu_set_t* set) noexcept {
  if (!has_4096) return static_cast<int>(::syscall(SYS_sched_setaffinity, thread, bytes, set));
  rondo::base::Processors to;
  for (const int one : kAllowed4096)
    if (CPU_ISSET_S(one, bytes, set)) to.push_back(one);
  if (to.empty()) return errno = EINVAL, -1;
  bound_4096 = to;
  return 0;
}

namespace rondo::test {
namespace {

using namespace topology;

struct KernelOf4096 {
  KernelOf4096() {
    bound_4096 = {3, 2000};
    has_4096 = true;
  }
  ~KernelOf4096() { has_4096 = false; }
  KernelOf4096(const KernelOf4096&) = delete;
  KernelOf4096& operator=(const KernelOf4096&) = delete;
};

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text << "\n";
}

/// A /sys of two packages of two cores of two threads, with an L3 per package and an L2 per core.
fs::path twoPackages(const fs::path& sys) {
  for (int cpu = 0; cpu < 8; ++cpu) {
    const int package = cpu % 4 / 2, core = cpu % 2, first = package * 2;
    const fs::path own = sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu));
    write(own / "topology/physical_package_id", std::to_string(package));
    write(own / "topology/core_id", std::to_string(core));
    const std::string l3 = std::to_string(first) + "-" + std::to_string(first + 1) + "," +
                           std::to_string(first + 4) + "-" + std::to_string(first + 5);
    const std::string l2 = std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4);
    for (const auto& [index, level, kind, size, shared] :
         {std::tuple{0, 1, "Data", "32K", l2}, std::tuple{1, 1, "Instruction", "32K", l2},
          std::tuple{2, 2, "Unified", "1024K", l2}, std::tuple{3, 3, "Unified", "16M", l3}}) {
      const fs::path cache = own / "cache" / ("index" + std::to_string(index));
      write(cache / "level", std::to_string(level));
      write(cache / "type", kind);
      write(cache / "size", size);
      write(cache / "shared_cpu_list", shared);
    }
    write(sys / "devices/system/node" / ("node" + std::to_string(package)) / "cpulist", l3);
  }
  return sys;
}

const Processors kAll{0, 1, 2, 3, 4, 5, 6, 7};

} // namespace

TEST_CASE("the kernel's files give packages, caches and cores of the given processors") {
  const TemporaryFolder folder;
  const Machine machine = systemMachine(kAll, twoPackages(folder.file("sys")));
  CHECK(summary(machine) ==
        "2 packages, 2 NUMA nodes, 4 cores, 8 processors, 0 GPUs, "
        "0 network cards");
  const auto linkOf = [&](int a, int b) {
    return code(linkBetween(machine, Processors{a}, Processors{b}));
  };
  CHECK(linkOf(0, 4) == "core");
  CHECK(linkOf(0, 1) == "L3");
  CHECK(linkOf(1, 2) == "SYS");
  CHECK(machine.at(machine.around(Kind::cache, {2, 6})).bytes == 1 << 20);
  CHECK(machine.at(machine.around(Kind::numa, {3})).number == 1);
  const Machine part = systemMachine({1, 2}, folder.file("sys"));
  CHECK(part.all(Kind::processor).size() == 2);
  CHECK(code(linkBetween(part, Processors{1}, Processors{2})) == "SYS");
  const Machine nothing = systemMachine({0, 1}, folder.file("nothing"));
  CHECK(nothing.all(Kind::core).size() == 2);
  CHECK(code(linkBetween(nothing, Processors{0}, Processors{1})) == "sock");
}

// Proves: two cores of one package are two cores, although the kernel gives both the same number;
// also for ranks that each see only their own processor.
TEST_CASE("cores of two clusters with the same core number are told apart") {
  const TemporaryFolder folder;
  const fs::path sys = folder.file("sys");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const fs::path own = sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    write(own / "physical_package_id", "0");
    write(own / "core_id", std::to_string(cpu % 2));
    write(own / "thread_siblings_list", std::to_string(cpu));
  }
  CHECK(systemMachine({0, 1, 2, 3}, sys).all(Kind::core).size() == 4);
  const auto coreOf = [&](int processor) {
    const Machine machine = systemMachine({processor}, sys);
    return machine.at(machine.around(Kind::core, {processor})).number;
  };
  CHECK(coreOf(0) != coreOf(2));
}

// Proves: on a machine that may have more processors than a cpu_set_t has room for, the thread's
// processors are found and can be set.
TEST_CASE("processors above 1024 are found and bound") {
  KernelOf4096 kernel;
  CHECK(text(ownProcessors()) == "3,2000");
  CHECK(text(allowedProcessors()) == "3,2000-2001");
  CHECK(base::bindThread({2001}));
  CHECK(text(ownProcessors()) == "2001");
}

// Proves: NUMA nodes are returned in the order of their numbers, including nodes without
// processors; other files next to them are ignored.
TEST_CASE("NUMA nodes are read from the kernel's files") {
  const TemporaryFolder folder;
  const fs::path sys = folder.file("sys"), nodes = sys / "devices/system/node";
  write(nodes / "node10" / "cpulist", "4-5,8");
  write(nodes / "node2" / "cpulist", "0-3");
  write(nodes / "node3" / "cpulist", "");
  write(nodes / "node4" / "cpulist", "4-x");
  write(nodes / "nodes" / "cpulist", "6");
  write(nodes / "power" / "cpulist", "7");
  std::string found;
  for (const base::NumaNode& node : base::numaNodes(sys))
    found += std::to_string(node.number) + ":" + text(node.processors) + " ";
  CHECK(found == "2:0-3 3: 10:4-5,8 ");
  CHECK(base::numaNodes(folder.file("nothing")).empty());
  for (const base::NumaNode& node : base::numaNodes()) CHECK(fs::exists(node.folder / "cpulist"));
}

TEST_CASE("allowedProcessors() does not depend on the binding of the thread") {
  const Processors before = ownProcessors(), allowed = allowedProcessors();
  REQUIRE(!before.empty());
  CHECK(contains(allowed, before));
  std::string missing;
  const Machine machine = thisMachine(missing);
  std::thread([&] {
    REQUIRE(base::bindThread({before.back()}));
    CHECK(ownProcessors() == Processors{before.back()});
    CHECK(allowedProcessors() == allowed);
    CHECK(ownProcessors() == Processors{before.back()});
    CHECK(encoded(thisMachine(missing)) == encoded(machine));
  }).join();
}

TEST_CASE("hwloc and the kernel's files agree about this machine") {
  std::string missing;
  const Machine by_hwloc = thisMachine(missing);
  if (!missing.empty()) return; // the module was not built, or hwloc cannot be opened
  CHECK(by_hwloc.source.find("hwloc") == 0);
  const Machine by_system = systemMachine(by_hwloc.processors());
  for (const Kind kind : {Kind::package, Kind::core, Kind::processor})
    CHECK(by_hwloc.all(kind).size() == by_system.all(kind).size());
  for (const int a : by_hwloc.processors())
    for (const int b : by_hwloc.processors())
      CHECK(linkBetween(by_hwloc, Processors{a}, Processors{b}) ==
            linkBetween(by_system, Processors{a}, Processors{b}));
}

TEST_CASE("NVML reports the links that are up, to GPUs and to switches") {
  // dlopen() returns a library that is already loaded under this name.
  void* const fake = ::dlopen(RONDO_TEST_PROGRAMS "/fake/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(fake != nullptr);
  std::ifstream file(std::string(RONDO_SOURCE_DIR) + "/tests/topology/data/job.xml");
  std::string xml((std::istreambuf_iterator<char>(file)), {});
  Machine machine = parseMachine(xml, "job.xml");
  addNvLinks(machine);
  CHECK(machine.nvlinks == std::vector<NvLink>{{0, 1, 3, false}, {2, 3, 12, true}});
  ::dlclose(fake);
}

TEST_CASE("ranks are bound core by core along caches and packages, or to packages, or to a list") {
  const TemporaryFolder folder;
  const Machine machine = systemMachine(kAll, twoPackages(folder.file("sys")));
  using Sets = std::vector<Processors>;
  const auto by = [&](const char* rule, int ranks, const Processors& allowed = kAll) {
    return bindings(machine, parseBind(rule, "RONDO_BIND"), allowed, ranks);
  };
  CHECK(by("core", 4) == Sets{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(by("core", 6) == Sets{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 4}, {1, 5}});
  CHECK(by("core", 2, {1, 2, 6}) == Sets{{1}, {2, 6}});
  CHECK(by("core", 2) == Sets{{0, 4}, {1, 5}});
  CHECK(by("socket", 2) == Sets{{0, 1, 4, 5}, {2, 3, 6, 7}}); // not the package of that core
  CHECK(by("socket", 3) == Sets{{0, 1, 4, 5}, {0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(by("socket", 2, {2, 3}) == Sets{{2, 3}, {2, 3}});
  CHECK(by("7,0-1", 4) == Sets{{7}, {0}, {1}, {7}});
  CHECK(by("none", 2) == Sets{kAll, kAll});
  for (const char* wrong : {"cores", "0,,1", "3-1", "-1", "0x3", "99999999"}) {
    CAPTURE(wrong);
    const Caught error = caught([&] { parseBind(wrong, "RONDO_BIND"); });
    CHECK(error.code == ErrorCode::invalid_argument);
    CHECK(error.text.find("RONDO_BIND") == 0);
    CHECK(error.text.find("valid: none, core, socket, or processors") != std::string::npos);
  }
}

// Proves: where neighbouring numbers belong to cores with different caches, ranks still fill one
// cache after the other.
TEST_CASE("ranks are bound cache by cache, however the cores are numbered") {
  const TemporaryFolder folder;
  const fs::path sys = folder.file("sys");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const fs::path own = sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu));
    write(own / "topology/physical_package_id", "0");
    write(own / "topology/core_id", std::to_string(cpu));
    write(own / "cache/index3/level", "3");
    write(own / "cache/index3/shared_cpu_list", cpu % 2 == 0 ? "0,2" : "1,3");
  }
  const Processors all{0, 1, 2, 3};
  CHECK(bindings(systemMachine(all, sys), parseBind("core", "RONDO_BIND"), all, 4) ==
        std::vector<Processors>{{0}, {2}, {1}, {3}});
}

TEST_CASE("a machine is decoded as it was encoded, and a truncated one is refused") {
  const Machine machine =
      readMachine(std::string(RONDO_SOURCE_DIR) + "/tests/topology/data/pcie4.xml");
  const auto bytes = encoded(machine);
  const Machine read = decodedMachine(bytes);
  CHECK(encoded(read) == bytes);
  CHECK(read.nvlinks == machine.nvlinks);
  CHECK(read.allowed == machine.allowed);
  CHECK(summary(read) == summary(machine));
  CHECK(read.device(Kind::card, "eth0") == machine.device(Kind::card, "eth0"));
  for (std::size_t length = 0; length < bytes.size(); length += 41)
    CHECK(caught([&] { decodedMachine(std::span(bytes).first(length)); }).code ==
          ErrorCode::transport);
}

TEST_CASE("sets of processors are read as they are written") {
  for (const Processors& set : {Processors{}, Processors{3}, Processors{0, 1, 2, 8, 10, 11}})
    CHECK(parseProcessors(text(set), "x") == set);
  CHECK(text({0, 1, 2, 8}) == "0-2,8");
  CHECK(parseMask("0x00000005,0x80000000", "x") == Processors{31, 32, 34});
  CHECK(parseMask("0x1,,0x0", "x") == Processors{64});
  CHECK(parseMask("0x0", "x").empty());
  for (const char* wrong : {"", "0xg", "0x1ffffffff", "f-", "0x1 "})
    CHECK(caught([&] { parseMask(wrong, "x"); }).code == ErrorCode::invalid_argument);
}

} // namespace rondo::test
