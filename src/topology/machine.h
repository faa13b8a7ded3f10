// A machine as a value: processors, caches and memory, GPUs and network cards, and what joins them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/processors.h"

namespace rondo::topology {

using base::allowedProcessors;
using base::both;
using base::contains;
using base::either;
using base::kMostProcessors;
using base::ownProcessors;
using base::parseMask;
using base::parseProcessors;
using base::Processors;
using base::text;

enum class Kind : std::uint8_t {
  machine,
  package,
  numa,
  cache,
  core,
  processor,
  bridge,
  gpu,
  card, ///< of a network
};

/// A part of a machine. NUMA nodes hold nothing but memory: packages and caches stand beside them.
struct Object {
  Kind kind = Kind::machine;
  int number = 0;          ///< the system's; of GPUs and cards, in the order of their PCI addresses
  int parent = -1;         ///< in Machine::objects, before this one; -1: this is the machine
  int level = 0;           ///< of a cache: 2, 3, ...
  std::uint64_t bytes = 0; ///< of a cache or a node's memory; 0: not known
  bool host = false;       ///< of a bridge: between processors and PCI, not inside PCI
  std::string name = {};   ///< for people, unlike all others of its kind: "gpu0", "mlx5_0"
  std::vector<std::string> aliases = {}; ///< its other names, and its PCI address
  std::string model = {};                ///< what the maker calls it; may be empty
  Processors processors = {};            ///< it has these; of devices: those nearest to it
};

/// Direct links between two GPUs, by their numbers, a < b.
struct NvLink {
  int a = 0, b = 0;
  int links = 0;         ///< of each of the two
  bool switched = false; ///< they lead to switches, which join more GPUs than these

  bool operator==(const NvLink&) const = default;
};

/// A network of its own: cards of one rail, on whatever machine, meet on one switch.
struct Rail {
  std::string name, card;

  bool operator==(const Rail&) const = default;
};

struct Machine {
  std::string name;            ///< the host's, or the file's
  std::string source;          ///< who says so: "hwloc 2.9.0", "/sys"
  std::vector<Object> objects; ///< the machine first; parts behind what they are part of
  Processors allowed;          ///< of its processors those that programs may run on
  std::vector<NvLink> nvlinks;
  std::vector<Rail> rails;
  std::vector<std::string> nodes; ///< of a job on several machines like this one; empty: only this

  const Object& at(int index) const { return objects[static_cast<std::size_t>(index)]; }
  const Processors& processors() const { return objects.front().processors; }
  /// Where the objects of a kind stand, in order.
  std::vector<int> all(Kind kind) const;
  /// The smallest object of a kind that has all these processors; -1 if there is none, or no
  /// processor.
  int around(Kind kind, const Processors& part) const;
  /// The GPU or the card that has this name or alias; -1.
  int device(Kind kind, std::string_view word) const;
  /// Adds an object below the smallest that has all its processors, memory aside.
  void insert(Object object);
};

/// "2 packages, 2 NUMA nodes, 64 cores, 128 processors, 512 GiB, 8 GPUs, 4 network cards". Where
/// programs may use only a part of the processors, their number follows: "128 processors (96
/// allowed)".
std::string summary(const Machine& machine);

/// "480 MiB".
std::string sizeText(std::uint64_t bytes);

} // namespace rondo::topology
