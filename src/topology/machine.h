// Machine: a machine as a value, with its processors, caches, memory, GPUs, network
// cards and links.
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
  card, ///< a network card
};

/// A part of a machine. NUMA nodes contain only memory: packages and caches are siblings of them.
struct Object {
  Kind kind = Kind::machine;
  int number = 0;  ///< the system's; GPUs and cards are numbered in the order of PCI addresses
  int parent = -1; ///< index in Machine::objects, before this one; -1: this is the machine itself
  int level = 0;   ///< of a cache: 2, 3, ...
  std::uint64_t bytes = 0;               ///< size of a cache or of a node's memory; 0: unknown
  bool host = false;                     ///< bridge: between processors and PCI, not inside PCI
  std::string name = {};                 ///< for display, unique among its kind: "gpu0", "mlx5_0"
  std::vector<std::string> aliases = {}; ///< its other names, and its PCI address
  std::string model = {};                ///< the vendor's name for it; may be empty
  Processors processors = {};            ///< that it contains; of a device: the nearest ones
  /// GPU: of its PCI link; card: of its cable. 10^9 bytes a second each way; 0: unknown. Only files
  /// of NCCL say it.
  double gbs = 0;
};

/// Links between two GPUs, which are given by their numbers; a < b.
struct NvLink {
  int a = 0, b = 0;
  int links = 0;         ///< links of each of the two GPUs
  bool switched = false; ///< the links lead to switches, which connect other GPUs too
  double gbs = 0;        ///< of one link, as Object::gbs

  bool operator==(const NvLink&) const = default;
};

/// One of several separate networks: cards of a rail, on any machine, are connected to one switch.
struct Rail {
  std::string name, card;

  bool operator==(const Rail&) const = default;
};

struct Machine {
  std::string name;            ///< host name, or name of the file
  std::string source;          ///< where the data come from: "hwloc 2.9.0", "/sys"
  std::vector<Object> objects; ///< the machine first; each part after the object that contains it
  Processors allowed;          ///< the processors that programs may run on
  std::vector<NvLink> nvlinks;
  std::vector<Rail> rails;
  std::vector<std::string> nodes; ///< of a job on several such machines; empty: only this machine

  const Object& at(int index) const { return objects[static_cast<std::size_t>(index)]; }
  const Processors& processors() const { return objects.front().processors; }
  /// Indices of the objects of a kind, ascending.
  std::vector<int> all(Kind kind) const;
  /// Index of the smallest object of a kind that contains all of `part`; -1 if there is none, or if
  /// `part` is empty.
  int around(Kind kind, const Processors& part) const;
  /// Index of the GPU or card with this name or alias; -1 if there is none.
  int device(Kind kind, std::string_view word) const;
  /// Adds an object as a child of the smallest object, other than a NUMA node, that contains all
  /// its processors.
  void insert(Object object);
};

/// "2 packages, 2 NUMA nodes, 64 cores, 128 processors, 512 GiB, 8 GPUs, 4 network cards".
/// If programs may use only some of the processors, their number is added: "128 processors
/// (96 allowed)".
std::string summary(const Machine& machine);

/// A number of bytes with a binary unit: "480 MiB".
std::string sizeText(std::uint64_t bytes);

} // namespace rondo::topology
