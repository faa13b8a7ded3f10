// Asks NVML which NVLinks are up, and what they connect.
//
// NVML is part of the driver, which need not be installed where Rondo is built. The few functions
// and types that are needed are declared here as in NVML's reference manual.
#include "topology/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <map>

namespace rondo::topology {
namespace {

constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 18; ///< of a GPU of any generation
constexpr unsigned kUp = 1, kToSwitch = 2;

struct PciInfo {
  std::array<char, 16> bus_id_legacy;
  unsigned domain, bus, device, device_id, subsystem_id;
  std::array<char, 32> bus_id;
};
using Device = void*;

class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) return;
    find(init_, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(handle, "nvmlDeviceGetHandleByPciBusId_v2");
    find(state, "nvmlDeviceGetNvLinkState");
    find(remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    find(remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType"); // since driver 455
    ready_ = init_ && shutdown && handle && state && remote && init_() == kSuccess;
  }
  ~Nvml() {
    if (ready_) shutdown();
    if (library_) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool ready() const { return ready_; }

  int (*shutdown)() = nullptr;
  int (*handle)(const char* bus_id, Device*) = nullptr;
  int (*state)(Device, unsigned link, unsigned* up) = nullptr;
  int (*remote)(Device, unsigned link, PciInfo*) = nullptr;
  int (*remote_type)(Device, unsigned link, unsigned* type) = nullptr;

 private:
  template <typename Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(::dlsym(library_, symbol));
  }

  void* library_;
  int (*init_)() = nullptr;
  bool ready_ = false;
};

/// The PCI address as hwloc writes it: a domain of four digits, lower case.
std::string addressOf(const PciInfo& pci) {
  std::string text(pci.bus_id.data(), ::strnlen(pci.bus_id.data(), pci.bus_id.size()));
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (text.size() > 12 && text.starts_with("0000")) text.erase(0, text.size() - 12);
  return text;
}

/// What the links of a GPU connect it to.
struct Ends {
  std::map<int, int> links; ///< number of the other GPU -> number of links
  int to_switches = 0;
};

Ends endsOf(const Nvml& nvml, const Machine& machine, Device device) {
  Ends ends;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned up = 0, type = 0;
    PciInfo pci{};
    if (nvml.state(device, link, &up) != kSuccess || up != kUp) continue;
    if (nvml.remote_type && nvml.remote_type(device, link, &type) == kSuccess &&
        type == kToSwitch) {
      ++ends.to_switches;
      continue;
    }
    if (nvml.remote(device, link, &pci) != kSuccess) continue;
    if (const int peer = machine.device(Kind::gpu, addressOf(pci)); peer >= 0)
      ++ends.links[machine.at(peer).number];
  }
  return ends;
}

} // namespace

void addNvLinks(Machine& machine) {
  const std::vector<int> gpus = machine.all(Kind::gpu);
  if (gpus.empty()) return;
  const Nvml nvml;
  if (!nvml.ready()) return;
  std::map<int, Ends> all;
  for (const int gpu : gpus) {
    Device device = nullptr;
    const auto& aliases = machine.at(gpu).aliases;
    if (!aliases.empty() && nvml.handle(aliases.front().c_str(), &device) == kSuccess)
      all[machine.at(gpu).number] = endsOf(nvml, machine, device);
  }
  for (const auto& [a, ends] : all)
    for (const auto& [b, others] : all) {
      if (b <= a) continue;
      const auto direct = ends.links.find(b);
      const int switched = std::min(ends.to_switches, others.to_switches);
      if (direct != ends.links.end()) machine.nvlinks.push_back({a, b, direct->second, false});
      else if (switched > 0) machine.nvlinks.push_back({a, b, switched, true});
    }
}

} // namespace rondo::topology
