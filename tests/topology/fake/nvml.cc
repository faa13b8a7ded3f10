// A libnvidia-ml.so.1 for tests: GPUs 0 and 1 have three links to each other and one that is down;
// GPUs 2 and 3 have twelve links each to a switch. GPUs are identified by their PCI addresses.
#include <cstdio>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
const char* const kAddresses[] = {"0000:34:00.0", "0000:35:00.0", "0000:b4:00.0", "0000:b5:00.0"};
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
long numberOf(void* device) { return reinterpret_cast<long>(device) - 1; }
} // namespace

EXPORT int nvmlInit_v2() { return 0; }
EXPORT int nvmlShutdown() { return 0; }
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  for (long i = 0; i < 4; ++i)
    if (std::strcmp(address, kAddresses[i]) == 0) {
      *device = reinterpret_cast<void*>(i + 1);
      return 0;
    }
  return 6; // not found
}
EXPORT int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* up) {
  if (link >= 12) return 2; // invalid argument
  *up = numberOf(device) >= 2 || link < 3;
  return 0;
}
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned, unsigned* type) {
  *type = numberOf(device) >= 2 ? 2 : 0;
  return 0;
}
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, PciInfo* pci) {
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "0000%s", kAddresses[1 - numberOf(device)]);
  return 0;
}
