// Finds the class of a link between two places, and prints it.
#include "topology/link.h"

#include <vector>

namespace rondo::topology {
namespace {

bool isDevice(const Object& object) {
  return object.kind == Kind::gpu || object.kind == Kind::card;
}

/// The object and all objects that contain it.
std::vector<int> path(const Machine& machine, int index) {
  std::vector<int> up;
  for (; index >= 0; index = machine.at(index).parent) up.push_back(index);
  return up;
}

/// The smallest part of the machine that both are in.
const Object& common(const Machine& machine, int a, int b) {
  const std::vector<int> up = path(machine, a);
  for (int i = b; i >= 0; i = machine.at(i).parent)
    for (const int other : up)
      if (i == other) return machine.at(i);
  return machine.objects.front();
}

Link betweenDevices(const Machine& machine, int a, int b) {
  const Object &one = machine.at(a), &two = machine.at(b);
  if (one.kind == Kind::gpu && two.kind == Kind::gpu)
    for (const NvLink& link : machine.nvlinks)
      if ((link.a == one.number && link.b == two.number) ||
          (link.b == one.number && link.a == two.number))
        return {LinkClass::nvlink, link.links, link.switched};
  const Object& top = common(machine, a, b);
  if (top.kind == Kind::bridge) return {top.host ? LinkClass::host_bridge : LinkClass::pcie_switch};
  return linkBetween(machine, one.processors, two.processors);
}

} // namespace

Link linkBetween(const Machine& machine, const Processors& a, const Processors& b) {
  if (a == b && a.size() == 1) return {LinkClass::core};
  const int package_a = machine.around(Kind::package, a);
  const int package_b = machine.around(Kind::package, b);
  if (package_a < 0 || package_b < 0) return {LinkClass::machine};
  if (package_a != package_b) return {LinkClass::cross_socket};
  const Processors all = either(a, b);
  if (machine.around(Kind::core, all) >= 0) return {LinkClass::core};
  if (const int cache = machine.around(Kind::cache, all); cache >= 0)
    return {LinkClass::cache, machine.at(cache).level};
  return {LinkClass::socket};
}

Link linkBetween(const Machine& machine, int a, int b) {
  if (a == b) return {};
  const Object &one = machine.at(a), &two = machine.at(b);
  if (!isDevice(one) && !isDevice(two)) return linkBetween(machine, one.processors, two.processors);
  const Link link = isDevice(one) && isDevice(two)
                        ? betweenDevices(machine, a, b)
                        : linkBetween(machine, one.processors, two.processors);
  // Devices are connected to the package, whatever caches the processors near them share.
  const bool near = link.kind == LinkClass::core || link.kind == LinkClass::cache ||
                    link.kind == LinkClass::socket;
  return near ? Link{LinkClass::socket} : link;
}

std::string code(const Link& link) {
  switch (link.kind) {
    case LinkClass::self: return "-";
    case LinkClass::process: return "proc";
    case LinkClass::core: return "core";
    case LinkClass::cache: return "L" + std::to_string(link.number);
    case LinkClass::socket: return "sock";
    case LinkClass::nvlink: return (link.switched ? "NVS" : "NV") + std::to_string(link.number);
    case LinkClass::pcie_switch: return "PIX";
    case LinkClass::host_bridge: return "PHB";
    case LinkClass::cross_socket: return "SYS";
    case LinkClass::machine: return "mach";
    case LinkClass::rail:
      return link.rail.size() == 1   ? "rail " + link.rail
             : link.rail.size() == 2 ? "rail" + link.rail
                                     : "rail";
    case LinkClass::network: return "net";
  }
  return "";
}

std::string meaning(const Link& link) {
  const std::string number = std::to_string(link.number);
  switch (link.kind) {
    case LinkClass::self: return "itself";
    case LinkClass::process: return "threads of one process";
    case LinkClass::core: return "on one core";
    case LinkClass::cache: return "an L" + number + " cache is shared";
    case LinkClass::socket: return "inside one package";
    case LinkClass::nvlink:
      return "NVLink, " + number + (link.switched ? " to the NVSwitches" : " between the two");
    case LinkClass::pcie_switch: return "below one PCIe switch";
    case LinkClass::host_bridge: return "below one PCIe root";
    case LinkClass::cross_socket: return "between packages";
    case LinkClass::machine: return "one machine, positions unknown";
    case LinkClass::rail: return "network, cards of rail " + link.rail;
    case LinkClass::network: return "network";
  }
  return "";
}

} // namespace rondo::topology
