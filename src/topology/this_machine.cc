// Reads this machine by hwloc, and the links between its GPUs by NVML.
#include <dlfcn.h>

#include "base/module.h"
#include "rondo/error.h"
#include "topology/hwloc/module.h"
#include "topology/hwloc_file.h"
#include "topology/nvml.h"
#include "topology/system.h"

namespace rondo::topology {

Machine thisMachine(std::string& missing) {
  missing = RONDO_HWLOC_MISSING;
  if (missing.empty()) {
    void* const module = base::openModule(kHwlocModule, false, missing);
    const auto read =
        module ? reinterpret_cast<HwlocMachine>(::dlsym(module, kHwlocSymbol)) : nullptr;
    if (module && !read) missing = std::string(kHwlocModule) + " is of another version";
    if (read) {
      std::string xml;
      const char* why =
          read(&xml, [](void* to, const char* text) { *static_cast<std::string*>(to) = text; });
      missing = why ? why : "";
      if (!why) {
        Machine machine = parseMachine(xml, "this machine");
        addNvLinks(machine);
        return machine;
      }
    }
  }
  return systemMachine(allowedProcessors());
}

} // namespace rondo::topology
