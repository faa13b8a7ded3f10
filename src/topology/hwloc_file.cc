// Builds a Machine from hwloc's XML, version 2 or 3.
#include "topology/hwloc_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>

#include "base/parse.h"
#include "base/read_file.h"
#include "base/xml.h"
#include "rondo/error.h"
#include "topology/hwloc_1.h"
#include "topology/nccl_file.h"

namespace rondo::topology {
namespace {

constexpr std::string_view kOurElements = "object info";
/// Elements that are skipped.
constexpr std::array<std::string_view, 12> kOtherElements{
    "page_type", "userdata", "distances", "distances2", "distances2hetero", "support",
    "memattr",   "cpukind",  "memtier",   "indexes",    "u64values",        "pci_locality"};
/// Objects that are skipped, while the objects inside them are kept.
constexpr std::array<std::string_view, 5> kPassedThrough{"Group", "Die", "MemCache", "Misc",
                                                         "L1Cache"};

/// hwloc's types of OSDev objects: numbers up to version 2, bits of one number from version 3 on.
/// In version 3 a fabric's device has the network bit too.
constexpr std::uint64_t kNetwork = 2, kFabric = 3;
constexpr std::uint64_t kNetworkBit = 1 << 4, kFabricBit = 1 << 5;

/// PCI classes, and vendors of GPUs; display adapters of other vendors, as servers have them, are
/// not GPUs.
constexpr int kNetworkClass = 0x02, kDisplayClass = 0x03, kAcceleratorClass = 0x12;
constexpr std::array<std::string_view, 3> kGpuMakers{"10de", "1002", "8086"};

template <typename List>
bool among(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

class Assembly {
 public:
  Assembly(const Element& topology, int version, const std::string& file)
      : file_(file), version_(version) {
    machine_.source = "hwloc";
    machine_.name = std::filesystem::path(file).stem().string();
    readOrigin(topology); // has entries from version 3 on
    for (const Element& element : topology.children) {
      if (element.name == "info" || among(kOtherElements, element.name)) continue;
      if (element.name != "object") complain(file_, element.line, unknown(element));
      if (!machine_.objects.empty()) complain(file_, element.line, "a second machine");
      if (type(element) != "Machine")
        complain(file_, element.line,
                 "the outermost object is a " + type(element) + ", where a Machine should be");
      machine_.objects.push_back({.kind = Kind::machine, .processors = mask(element, "cpuset")});
      machine_.allowed = allowedIn(element);
      fill(element, {0, machine_.processors()});
    }
    if (machine_.objects.empty()) complain(file_, topology.line, "it has no Machine");
    if (machine_.all(Kind::processor).empty())
      complain(file_, topology.line, "the machine has no processor (PU)");
    numberDevices(Kind::gpu, "gpu");
    numberDevices(Kind::card, "");
    machine_.objects.front().name = machine_.name;
  }

  Machine take() { return std::move(machine_); }

 private:
  /// Context of an element: the object that it is part of, and the nearest processors.
  struct Around {
    int parent;
    Processors near;
  };

  std::string unknown(const Element& element) const {
    return "unknown element <" + element.name + ">; valid: " + std::string(kOurElements) + " " +
           base::join(kOtherElements, " ");
  }

  const std::string& type(const Element& object) const { return base::need(object, "type", file_); }

  /// Calls a parser; puts file and line before the text of its error.
  template <typename Parse>
  auto parsed(const Element& element, std::string_view attribute, Parse parse) const {
    try {
      return parse(base::need(element, attribute, file_), "'" + std::string(attribute) + "'");
    } catch (const Error& error) {
      const std::string why = error.what();
      if (why.starts_with(file_ + ":")) throw;
      complain(file_, element.line, why);
    }
  }

  std::uint64_t number(const Element& element, std::string_view attribute) const {
    return parsed(element, attribute, [](const std::string& text, const std::string& what) {
      return static_cast<std::uint64_t>(base::parseInteger(text, what, 0));
    });
  }
  std::uint64_t numberOr0(const Element& element, std::string_view attribute) const {
    return element.find(attribute) ? number(element, attribute) : 0;
  }

  Processors mask(const Element& element, std::string_view attribute) const {
    return parsed(element, attribute, [](const std::string& text, const std::string& what) {
      return parseMask(text, what);
    });
  }

  /// Files that contain disallowed processors also list the allowed ones.
  Processors allowedIn(const Element& machine) const {
    const Processors& all = machine_.processors();
    if (!machine.find("allowed_cpuset")) return all;
    Processors allowed = both(mask(machine, "allowed_cpuset"), all);
    if (allowed.empty() && !all.empty())
      complain(file_, machine.line, "'allowed_cpuset' has none of the machine's processors");
    return allowed;
  }

  std::string info(const Element& object, std::string_view name) const {
    for (const Element& child : object.children)
      if (child.name == "info" && child.find("name") && *child.find("name") == name)
        return base::need(child, "value", file_);
    return {};
  }

  /// Reads the names of the host and of the program that wrote the file.
  void readOrigin(const Element& element) {
    if (const std::string host = info(element, "HostName"); !host.empty()) machine_.name = host;
    if (const std::string by = info(element, "hwlocVersion"); !by.empty())
      machine_.source = "hwloc " + by;
  }

  /// Adds the children of an object that was added already.
  void fill(const Element& object, const Around& around) {
    readOrigin(object);
    for (const Element& child : object.children) {
      if (child.name == "object") add(child, around);
      else if (child.name != "info" && !among(kOtherElements, child.name))
        complain(file_, child.line, unknown(child));
    }
  }

  void add(const Element& element, const Around& around) {
    const std::string& word = type(element);
    if (word == "PCIDev") return addDevice(element, around);
    if (word == "OSDev") return addBare(element, around);
    if (word == "Bridge") return addBridge(element, around);
    if (word == "Misc") return fill(element, around);
    const Processors own = mask(element, "cpuset");
    if (!contains(around.near, own))
      complain(file_, element.line, word + " has processors that its parent does not have");
    const std::optional<Object> part = partOf(element, word, own);
    if (!part) return fill(element, {around.parent, own.empty() ? around.near : own});
    machine_.objects.push_back(*part);
    machine_.objects.back().parent = around.parent;
    fill(element, {static_cast<int>(machine_.objects.size()) - 1, own});
  }

  /// Returns nothing for an object that is skipped.
  std::optional<Object> partOf(const Element& element, const std::string& word,
                               const Processors& own) const {
    Object part{.processors = own};
    const auto named = [&](Kind kind, const char* text) {
      part.kind = kind;
      part.number = static_cast<int>(
          base::needInteger(element, "os_index", 0, std::numeric_limits<int>::max(), file_));
      part.name = text + std::string(" ") + std::to_string(part.number);
    };
    if (word == "Package") {
      named(Kind::package, "package");
      part.model = info(element, "CPUModel");
    } else if (word == "NUMANode") {
      named(Kind::numa, "NUMA node");
      part.bytes = numberOr0(element, "local_memory");
    } else if (word == "Core") {
      named(Kind::core, "core");
    } else if (word == "PU") {
      named(Kind::processor, "processor");
      if (own != Processors{part.number})
        complain(file_, element.line,
                 "PU " + std::to_string(part.number) + " has the mask of " +
                     (own.empty() ? "none" : "processors " + text(own)));
      if (machine_.around(Kind::processor, own) >= 0)
        complain(file_, element.line, "PU " + std::to_string(part.number) + " is defined twice");
    } else if (word.size() == 7 && word[0] == 'L' && word[1] > '1' && word[1] <= '9' &&
               word.ends_with("Cache")) {
      part.kind = Kind::cache;
      part.level = word[1] - '0';
      part.number = own.empty() ? 0 : own.front();
      part.name = word.substr(0, 2);
      part.bytes = numberOr0(element, "cache_size");
    } else if (among(kPassedThrough, word) || word.ends_with("iCache")) {
      return {};
    } else {
      complain(file_, element.line, "unknown type of object " + base::quoted(word));
    }
    return part;
  }

  void addBridge(const Element& element, const Around& around) {
    Object bridge{.kind = Kind::bridge, .parent = around.parent, .processors = around.near};
    const std::string& way = base::need(element, "bridge_type", file_);
    if (way != "0-1" && way != "1-1")
      complain(
          file_, element.line,
          "unknown bridge_type " + base::quoted(way) + "; valid: 0-1 (to PCI), 1-1 (inside PCI)");
    bridge.host = way == "0-1";
    bridge.name = bridge.host ? firstBus(element) : base::need(element, "pci_busid", file_);
    machine_.objects.push_back(bridge);
    fill(element, {static_cast<int>(machine_.objects.size()) - 1, around.near});
  }

  /// "0000:17" of bridge_pci="0000:[17-2a]".
  std::string firstBus(const Element& element) const {
    const std::string& span = base::need(element, "bridge_pci", file_);
    const auto bracket = span.find(":["), dash = span.find('-');
    if (bracket == std::string::npos || dash == std::string::npos || dash < bracket + 3 ||
        !span.ends_with(']'))
      complain(file_, element.line,
               "bridge_pci " + base::quoted(span) +
                   " is no span of buses; valid: one like 0000:[17-2a]");
    return span.substr(0, bracket + 1) + span.substr(bracket + 2, dash - bracket - 2);
  }

  /// "0302 [10de:2330] ...": the class and the maker.
  struct PciType {
    int kind = 0;
    std::string maker;
  };
  PciType pciType(const Element& element) const {
    const std::string& text = base::need(element, "pci_type", file_);
    const auto bracket = text.find('[');
    const bool good = text.size() >= 4 && bracket != std::string::npos &&
                      text.find_first_not_of("0123456789abcdef") == 4 && text.size() > bracket + 5;
    if (!good)
      complain(file_, element.line,
               "pci_type " + base::quoted(text) +
                   " is no PCI type; valid: one like \"0302 [10de:2330]\"");
    return {std::stoi(text.substr(0, 2), nullptr, 16), text.substr(bracket + 1, 4)};
  }

  struct NetworkType {
    bool network = false, fabric = false;
  };
  NetworkType networkType(const Element& device) const {
    const std::uint64_t type = number(device, "osdev_type");
    if (version_ < 3) return {type == kNetwork || type == kFabric, type == kFabric};
    return {(type & (kNetworkBit | kFabricBit)) != 0, (type & kFabricBit) != 0};
  }

  void addDevice(const Element& element, const Around& around) {
    Object device{.parent = around.parent, .processors = around.near};
    device.aliases.push_back(base::need(element, "pci_busid", file_));
    device.model = info(element, "PCIDevice");
    bool network = false;
    for (const Element& child : element.children) {
      if (child.name != "object" || type(child) != "OSDev") continue;
      const std::string& name = base::need(child, "name", file_);
      const NetworkType type = networkType(child);
      network = network || type.network;
      if (const std::string model = info(child, "GPUModel"); !model.empty()) device.model = model;
      if (type.fabric) device.name = name;
      device.aliases.push_back(name);
    }
    const PciType pci = pciType(element);
    if ((pci.kind == kDisplayClass || pci.kind == kAcceleratorClass) &&
        among(kGpuMakers, pci.maker)) {
      device.kind = Kind::gpu;
    } else if (network || pci.kind == kNetworkClass) {
      device.kind = Kind::card;
      if (device.name.empty()) device.name = device.aliases.back();
    } else {
      return;
    }
    machine_.objects.push_back(device);
  }

  /// Adds a network card that is not a PCI device, as in some virtual machines.
  void addBare(const Element& element, const Around& around) {
    if (const NetworkType type = networkType(element); !type.network || type.fabric) return;
    const std::string& name = base::need(element, "name", file_);
    machine_.objects.push_back(
        {.kind = Kind::card, .parent = around.parent, .name = name, .processors = around.near});
  }

  /// Numbers devices in the order of their PCI addresses, as the vendors' tools do.
  void numberDevices(Kind kind, const std::string& prefix) {
    std::vector<int> devices = machine_.all(kind);
    const auto address = [this](int i) {
      const auto& aliases = machine_.at(i).aliases;
      return aliases.empty() ? std::string() : aliases.front();
    };
    std::stable_sort(devices.begin(), devices.end(),
                     [&](int a, int b) { return address(a) < address(b); });
    for (std::size_t n = 0; n < devices.size(); ++n) {
      Object& device = machine_.objects[static_cast<std::size_t>(devices[n])];
      device.number = static_cast<int>(n);
      if (!prefix.empty()) device.name = prefix + std::to_string(n);
      std::erase(device.aliases, device.name);
    }
  }

  const std::string& file_;
  const int version_;
  Machine machine_;
};

std::string contents(const std::string& path) {
  auto text = base::readFile(path);
  if (!text || text->empty())
    throw Error(ErrorCode::system, "cannot read the machine file '" + path + "'");
  return *std::move(text);
}

} // namespace

Machine parseMachine(std::string_view xml, const std::string& file) {
  const Element topology = base::parseXml(xml, file);
  if (topology.name == "system") return fromNccl(topology, file);
  if (topology.name != "topology")
    complain(file, topology.line,
             "the outermost element is <" + topology.name +
                 ">; valid: hwloc's <topology>, NCCL's <system>");
  const std::string* version = topology.find("version");
  if (!version) return Assembly(fromVersion1(topology, file), 2, file).take();
  if (!version->starts_with("2.") && !version->starts_with("3."))
    complain(file, topology.line,
             "version " + base::quoted(*version) +
                 "; valid: version=\"2.0\", version=\"3.0\", or none as hwloc 1 writes it");
  return Assembly(topology, version->front() - '0', file).take();
}

Machine readMachine(const std::string& path) {
  Machine machine = parseMachine(contents(path), path);
  machine.source += ", " + path;
  const std::filesystem::path links = std::filesystem::path(path).replace_extension(".links");
  if (std::filesystem::exists(links)) {
    addLinks(machine, contents(links.string()), links.string());
    machine.source += " and " + links.filename().string();
  }
  return machine;
}

} // namespace rondo::topology
