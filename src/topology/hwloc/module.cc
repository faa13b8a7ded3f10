// The module librondo_hwloc.so: lets hwloc read this machine, and returns its XML.
#include "topology/hwloc/module.h"

#include <hwloc.h>

#include <memory>

namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

} // namespace

extern "C" __attribute__((visibility("default"))) const char* rondo_hwloc_machine_1(
    void* to, void (*take)(void* to, const char* xml)) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return "hwloc cannot be initialised";
  const Topology topology(made);
  if (hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
      hwloc_topology_load(made) != 0)
    return "hwloc cannot read this machine";
  char* xml = nullptr;
  int size = 0;
  if (hwloc_topology_export_xmlbuffer(made, &xml, &size, 0) != 0)
    return "hwloc cannot write this machine as XML";
  take(to, xml);
  hwloc_free_xmlbuffer(made, xml);
  return nullptr;
}
