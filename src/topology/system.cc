// Reads the files of /sys/devices/system for some processors.
#include "topology/system.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <system_error>

#include "base/parse.h"
#include "base/read_file.h"
#include "rondo/error.h"

namespace rondo::topology {
namespace {

namespace fs = std::filesystem;

/// The number in the file; -1 if there is no file or no number.
int numberOf(const fs::path& file) {
  try {
    const std::string line = base::firstLine(file);
    return static_cast<int>(base::parseInteger(line, file.string(), 0, kMostProcessors));
  } catch (const Error&) {
    return -1;
  }
}

Processors setOf(const fs::path& file) {
  try {
    return parseProcessors(base::firstLine(file), file.string());
  } catch (const Error&) {
    return {};
  }
}

std::uint64_t bytesOf(const fs::path& file) {
  try {
    return base::parseBytes(base::firstLine(file), file.string());
  } catch (const Error&) {
    return 0;
  }
}

/// Packages, cores, caches and nodes that the processors belong to.
class Findings {
 public:
  Findings(const Processors& of, const fs::path& sys) : of_(of), sys_(sys) {
    for (const int processor : of) readProcessor(processor);
    readNodes();
  }

  Machine machine() {
    Machine made;
    made.source = "/sys";
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) == 0) made.name = host.data();
    made.objects.push_back({.kind = Kind::machine, .name = made.name, .processors = of_});
    made.allowed = of_;
    // From the largest to the smallest, so that each object finds the one that contains it.
    for (auto& [number, package] : packages_) made.insert(std::move(package));
    for (auto& node : nodes_) made.insert(std::move(node));
    for (auto at = caches_.rbegin(); at != caches_.rend(); ++at) made.insert(std::move(at->second));
    // Cache by cache: ordered by the objects that contain them.
    std::multimap<std::vector<std::size_t>, Object> cores;
    for (auto& [number, core] : cores_)
      cores.emplace(containing(made, core.processors), std::move(core));
    for (auto& [around, core] : cores) made.insert(core);
    for (const int processor : of_)
      made.insert({.kind = Kind::processor,
                   .number = processor,
                   .name = "processor " + std::to_string(processor),
                   .processors = {processor}});
    return made;
  }

 private:
  static std::vector<std::size_t> containing(const Machine& machine, const Processors& part) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < machine.objects.size(); ++i)
      if (contains(machine.objects[i].processors, part)) found.push_back(i);
    return found;
  }

  fs::path folderOf(int processor) const {
    return sys_ / "devices/system/cpu" / ("cpu" + std::to_string(processor));
  }

  void readProcessor(int processor) {
    const fs::path topology = folderOf(processor) / "topology";
    const int package = std::max(numberOf(topology / "physical_package_id"), 0);
    Object& of = packages_[package];
    of.kind = Kind::package;
    of.number = package;
    of.name = "package " + std::to_string(package);
    of.processors.push_back(processor);
    // A core is named by its first processor. The kernel's core numbers start again in each package
    // and, on some ARM machines, also in each cluster of a package.
    const Processors siblings = setOf(topology / "thread_siblings_list");
    const int core = siblings.empty() ? numberOf(topology / "core_id") : siblings.front();
    Object& own = cores_[{package, core < 0 ? kMostProcessors + processor : core}];
    own.kind = Kind::core;
    own.number = core < 0 ? processor : core;
    own.name = "core " + std::to_string(own.number);
    own.processors.push_back(processor);
    readCaches(processor);
  }

  void readCaches(int processor) {
    std::error_code none;
    for (fs::directory_iterator at(folderOf(processor) / "cache", none), end; !none && at != end;
         at.increment(none)) {
      const int level = numberOf(at->path() / "level");
      if (level < 2 || base::firstLine(at->path() / "type") == "Instruction") continue;
      const Processors all = setOf(at->path() / "shared_cpu_list"), sharing = both(all, of_);
      if (sharing.empty()) continue;
      caches_[{level, -all.front()}] = {.kind = Kind::cache,
                                        .number = all.front(),
                                        .level = level,
                                        .bytes = bytesOf(at->path() / "size"),
                                        .name = "L" + std::to_string(level),
                                        .processors = sharing};
    }
  }

  void readNodes() {
    for (const base::NumaNode& node : base::numaNodes(sys_)) {
      const Processors own = both(node.processors, of_);
      if (own.empty()) continue;
      nodes_.push_back({.kind = Kind::numa,
                        .number = node.number,
                        .bytes = memoryOf(node.folder),
                        .name = "NUMA node " + std::to_string(node.number),
                        .processors = own});
    }
  }

  /// "Node 0 MemTotal:       16214768 kB".
  static std::uint64_t memoryOf(const fs::path& node) {
    std::istringstream in(base::readFile(node / "meminfo").value_or(""));
    std::string word;
    std::uint64_t kilobytes = 0;
    while (in >> word)
      if (word == "MemTotal:" && in >> kilobytes) return kilobytes << 10;
    return 0;
  }

  const Processors& of_;
  const fs::path sys_;
  std::map<int, Object> packages_;
  std::map<std::pair<int, int>, Object> cores_;  ///< by package and number
  std::map<std::pair<int, int>, Object> caches_; ///< by level and its first processor, negated
  std::vector<Object> nodes_;
};

} // namespace

Machine systemMachine(const Processors& of, const fs::path& sys) {
  return Findings(of, sys).machine();
}

} // namespace rondo::topology
