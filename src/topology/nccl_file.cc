// Builds a machine from the elements of NCCL's topology files.
#include "topology/nccl_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>

#include "base/parse.h"
#include "rondo/error.h"

namespace rondo::topology {
namespace {

using base::complain;
using base::XmlElement;

constexpr int kMostLinks = 1024; ///< of a GPU
constexpr double kMostTransfers = 1024, kMostMegabits = 1e8;
constexpr std::string_view kSwitchClass = "0x068000", kPowerCpuClass = "0x068001";

/// GB/s of one NVLink in each direction, by the compute capability from which on it holds.
constexpr std::array<std::pair<int, double>, 6> kNvLinkSpeeds{
    {{0, 20}, {70, 25}, {86, 14}, {87, 25}, {90, 25}, {100, 50}}};

double nvLinkSpeed(int sm) {
  double speed = 0;
  for (const auto& [from, gbs] : kNvLinkSpeeds)
    if (sm >= from) speed = gbs;
  return speed;
}

class NcclReader {
 public:
  NcclReader(const XmlElement& system, const std::string& file) : file_(file) {
    base::needInteger(system, "version", 1, 1, file);
    machine_.source = "NCCL";
    machine_.name = std::filesystem::path(file).stem().string();
    machine_.objects.push_back({.kind = Kind::machine, .name = machine_.name});
    for (const XmlElement& cpu : system.children) {
      expect(cpu, {"cpu"});
      addCpu(cpu);
    }
    if (machine_.objects.size() == 1) complain(file, system.line, "it has no cpu");
    machine_.allowed = machine_.processors();
    for (const int number : machine_.allowed)
      machine_.insert({.kind = Kind::processor,
                       .number = number,
                       .name = "processor " + std::to_string(number),
                       .processors = {number}});
    numberDevices(Kind::gpu);
    numberDevices(Kind::card);
    addLinks();
  }

  Machine take() { return std::move(machine_); }

 private:
  /// What a GPU's elements say about its links.
  struct Gpu {
    int object = 0, sm = 0, to_switches = 0, line = 0;
    std::vector<const XmlElement*> links{}; ///< to other GPUs
  };

  void expect(const XmlElement& element, std::initializer_list<std::string_view> valid) const {
    if (std::find(valid.begin(), valid.end(), element.name) == valid.end())
      complain(file_, element.line,
               "unknown element <" + element.name + ">; valid: " + base::join(valid, ", "));
  }

  int add(Object object) {
    machine_.objects.push_back(std::move(object));
    return static_cast<int>(machine_.objects.size() - 1);
  }

  void addCpu(const XmlElement& cpu) {
    if (const std::string* host = cpu.find("host_hash")) {
      if (!host_.empty() && host_ != *host) complain(file_, cpu.line, "a cpu of a second host");
      host_ = *host;
    }
    Object package{.kind = Kind::package, .parent = 0};
    package.number = packages_++;
    package.name = "package " + std::to_string(package.number);
    if (const std::string* vendor = cpu.find("vendor")) package.model = *vendor;
    if (const std::string* mask = cpu.find("affinity"); mask && !mask->empty()) {
      try {
        package.processors = parseMask(*mask, "'affinity'");
      } catch (const Error& error) {
        complain(file_, cpu.line, error.what());
      }
    }
    auto& all = machine_.objects.front().processors;
    if (!both(all, package.processors).empty())
      complain(file_, cpu.line, "it has processors that another cpu has, too");
    all = either(all, package.processors);
    const Processors near = package.processors;
    fill(cpu, add(std::move(package)), near);
  }

  void fill(const XmlElement& element, int parent, const Processors& near) {
    for (const XmlElement& child : element.children) {
      expect(child, {"pci", "nic", "gpu", "nvlink", "c2c", "net", "pcilink"});
      if (child.name == "pci") addPci(child, parent, near);
      if (child.name == "nic") addNic(child, parent, near, nullptr);
    }
  }

  void addPci(const XmlElement& pci, int parent, const Processors& near) {
    const std::string& address = base::need(pci, "busid", file_);
    if (!addresses_.emplace(address, pci.line).second)
      complain(file_, pci.line, "PCI device " + base::quoted(address) + " is defined twice");
    const std::string* kind = pci.find("class");
    const auto below = [&](std::string_view name) {
      return std::find_if(pci.children.begin(), pci.children.end(),
                          [&](const XmlElement& child) { return child.name == name; });
    };
    const auto gpu = below("gpu"), nic = below("nic");
    const bool found_gpu = gpu != pci.children.end(), found_nic = nic != pci.children.end();
    if (found_gpu || (!found_nic && kind && kind->starts_with("0x03"))) {
      Object device{.kind = Kind::gpu, .parent = parent, .processors = near};
      device.aliases.push_back(address);
      device.gbs = pciSpeed(pci);
      Gpu& made = gpus_[address];
      made.object = add(std::move(device));
      made.line = pci.line;
      if (found_gpu) readGpu(*gpu, made);
    } else if (found_nic) {
      addNic(*nic, parent, near, &address);
    } else if (kind && kind->starts_with("0x02")) {
      Object device{.kind = Kind::card, .parent = parent, .name = address, .processors = near};
      device.gbs = pciSpeed(pci);
      add(std::move(device));
    } else {
      const bool host = machine_.at(parent).kind == Kind::package;
      fill(pci,
           add({.kind = Kind::bridge,
                .parent = parent,
                .host = host,
                .name = address,
                .processors = near}),
           near);
    }
  }

  void readGpu(const XmlElement& element, Gpu& gpu) const {
    if (element.find("sm"))
      gpu.sm = static_cast<int>(base::needInteger(element, "sm", 0, 10'000, file_));
    for (const XmlElement& link : element.children) {
      expect(link, {"nvlink", "c2c"});
      if (link.name != "nvlink") continue;
      const auto count = static_cast<int>(base::needInteger(link, "count", 1, kMostLinks, file_));
      const std::string* kind = link.find("tclass");
      if (kind && *kind == kPowerCpuClass) continue;
      if (kind && *kind == kSwitchClass) gpu.to_switches += count;
      else gpu.links.push_back(&link);
    }
  }

  void addNic(const XmlElement& nic, int parent, const Processors& near,
              const std::string* address) {
    for (const XmlElement& net : nic.children) {
      expect(net, {"net"});
      Object card{.kind = Kind::card, .parent = parent, .processors = near};
      card.name = base::need(net, "name", file_);
      if (address) card.aliases.push_back(*address);
      if (machine_.device(Kind::card, card.name) >= 0)
        complain(file_, net.line, "network card " + base::quoted(card.name) + " is defined twice");
      if (net.find("speed"))
        card.gbs = number(net, "speed", kMostMegabits) * 1e6 / 8 * 1e-9; // megabits
      add(std::move(card));
    }
  }

  /// A number above 0, or 0 for an empty text; a unit may follow it.
  double number(const XmlElement& element, const char* attribute, double most) const {
    const std::string& text = base::need(element, attribute, file_);
    if (text.empty()) return 0;
    double value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool unit = end == text.data() + text.size() || *end == ' ';
    if (fault != std::errc() || !unit || !(value > 0 && value <= most))
      complain(file_, element.line,
               "'" + std::string(attribute) + "' is " + base::quoted(text) +
                   "; valid: a number above 0, at most " +
                   std::to_string(static_cast<long long>(most)));
    return value;
  }

  /// 10^9 bytes a second: lanes times transfers, of which up to PCIe 2 eight of ten and then 128 of
  /// 130 bits are data.
  double pciSpeed(const XmlElement& pci) const {
    if (!pci.find("link_speed") || !pci.find("link_width")) return 0;
    const double transfers = number(pci, "link_speed", kMostTransfers);
    const auto lanes = static_cast<double>(base::needInteger(pci, "link_width", 0, 64, file_));
    return transfers * lanes / 8 * (transfers > 5 ? 128.0 / 130 : 0.8);
  }

  /// In the order of their PCI addresses.
  void numberDevices(Kind kind) {
    std::vector<int> devices = machine_.all(kind);
    const auto address = [this](int i) {
      const Object& device = machine_.at(i);
      return device.aliases.empty() ? device.name : device.aliases.front();
    };
    std::stable_sort(devices.begin(), devices.end(),
                     [&](int a, int b) { return address(a) < address(b); });
    for (std::size_t n = 0; n < devices.size(); ++n) {
      Object& device = machine_.objects[static_cast<std::size_t>(devices[n])];
      device.number = static_cast<int>(n);
      if (kind == Kind::gpu) device.name = "gpu" + std::to_string(n);
    }
  }

  void addLinks() {
    std::map<std::pair<int, int>, NvLink> links;
    for (const auto& [address, gpu] : gpus_) {
      for (const XmlElement* link : gpu.links) {
        const std::string& target = base::need(*link, "target", file_);
        const auto other = gpus_.find(target);
        if (other == gpus_.end()) {
          if (addresses_.contains(target))
            complain(file_, link->line, "the target " + base::quoted(target) + " is no GPU");
          continue; // NCCL writes only the GPUs of the job's ranks, but all their links
        }
        if (other->first == address) complain(file_, link->line, "a GPU is linked to itself");
        NvLink made = linkOf(gpu, other->second);
        made.links = static_cast<int>(base::needInteger(*link, "count", 1, kMostLinks, file_));
        const auto [known, is_new] = links.emplace(std::pair(made.a, made.b), made);
        if (!is_new && known->second.links != made.links)
          complain(file_, link->line,
                   "the two GPUs disagree on how many links there are between them: " +
                       std::to_string(known->second.links) + " and " + std::to_string(made.links));
      }
      for (const auto& [there, other] : gpus_) {
        if (there <= address || gpu.to_switches == 0 || other.to_switches == 0) continue;
        NvLink made = linkOf(gpu, other);
        made.links = std::min(gpu.to_switches, other.to_switches);
        made.switched = true;
        links.emplace(std::pair(made.a, made.b), made);
      }
    }
    for (const auto& [ends, link] : links) machine_.nvlinks.push_back(link);
  }

  NvLink linkOf(const Gpu& one, const Gpu& other) const {
    const int a = machine_.at(one.object).number, b = machine_.at(other.object).number;
    return {.a = std::min(a, b), .b = std::max(a, b), .gbs = one.sm > 0 ? nvLinkSpeed(one.sm) : 0};
  }

  const std::string& file_;
  Machine machine_;
  std::string host_;
  int packages_ = 0;
  std::map<std::string, int> addresses_; ///< PCI address: line
  std::map<std::string, Gpu> gpus_;      ///< by PCI address
};

} // namespace

Machine fromNccl(const base::XmlElement& system, const std::string& file) {
  return NcclReader(system, file).take();
}

} // namespace rondo::topology
