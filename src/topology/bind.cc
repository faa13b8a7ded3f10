// Distributes a machine's processors among its ranks.
#include "topology/bind.h"

namespace rondo::topology {
namespace {

/// The allowed processors of each object of this kind that has any. Empty if these objects do not
/// cover all of `allowed`.
std::vector<Processors> partsOf(const Machine& machine, Kind kind, const Processors& allowed) {
  std::vector<Processors> parts;
  Processors covered;
  for (const int i : machine.all(kind)) {
    Processors own = both(machine.at(i).processors, allowed);
    if (own.empty()) continue;
    covered = either(covered, own);
    parts.push_back(std::move(own));
  }
  return covered == allowed ? parts : std::vector<Processors>{};
}

std::vector<Processors> singles(const Processors& set) {
  std::vector<Processors> parts;
  for (const int processor : set) parts.push_back({processor});
  return parts;
}

/// The cores' processors, in the order of the machine's objects: package by package, and cache by
/// cache within a package. Without cores: each processor by itself.
std::vector<Processors> cores(const Machine& machine, const Processors& allowed) {
  const auto parts = partsOf(machine, Kind::core, allowed);
  return parts.empty() ? singles(allowed) : parts;
}

} // namespace

std::vector<Processors> bindings(const Machine& machine, const BindRule& rule,
                                 const Processors& allowed, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<Processors> parts;
  switch (rule.to) {
    case BindRule::To::none: break;
    case BindRule::To::core: parts = cores(machine, allowed); break;
    case BindRule::To::socket: parts = partsOf(machine, Kind::package, allowed); break;
    case BindRule::To::list: parts = singles(rule.list); break;
  }
  if (parts.empty()) return std::vector<Processors>(count, allowed);
  std::vector<Processors> all;
  for (std::size_t rank = 0; rank < count; ++rank)
    all.push_back(rule.to == BindRule::To::socket ? parts[rank * parts.size() / count]
                                                  : parts[rank % parts.size()]);
  return all;
}

} // namespace rondo::topology
