// Reads the topology files of NCCL (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE).
#pragma once

#include <string>

#include "base/xml.h"
#include "topology/machine.h"

namespace rondo::topology {

/// Returns the machine of a <system>: PCI bridges, GPUs, network cards and NVLinks, with the speeds
/// of links, and each <cpu> as a package. (A <cpu> is a NUMA node; the file does not say which of
/// them share a socket.) GPUs and cards of files without <gpu> and <nic> are found by their PCI
/// class. NVLinks to GPUs that are not in the file are left out, as by NCCL. So are NVLinks to CPUs
/// (POWER9), which NCCL uses: an NvLink here joins GPUs only. Throws Error(invalid_argument)
/// "FILE:LINE: WHY" for other versions, unknown elements, values that are not numbers in their
/// ranges, links to devices of this file that are no GPUs, and files of several hosts.
Machine fromNccl(const base::XmlElement& system, const std::string& file);

} // namespace rondo::topology
