// Searches and summarises machines.
#include "topology/machine.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace rondo::topology {

std::vector<int> Machine::all(Kind kind) const {
  std::vector<int> found;
  for (std::size_t i = 0; i < objects.size(); ++i)
    if (objects[i].kind == kind) found.push_back(static_cast<int>(i));
  return found;
}

int Machine::around(Kind kind, const Processors& part) const {
  int best = -1;
  if (part.empty()) return best;
  for (const int i : all(kind))
    if (contains(at(i).processors, part) &&
        (best < 0 || at(i).processors.size() < at(best).processors.size()))
      best = i;
  return best;
}

int Machine::device(Kind kind, std::string_view word) const {
  for (const int i : all(kind)) {
    const auto& aliases = at(i).aliases;
    if (at(i).name == word || std::find(aliases.begin(), aliases.end(), word) != aliases.end())
      return i;
  }
  return -1;
}

void Machine::insert(Object object) {
  // Of several objects of the same size the last one is the innermost.
  std::size_t smallest = 0;
  for (std::size_t i = 0; i < objects.size(); ++i)
    if (objects[i].kind != Kind::numa && contains(objects[i].processors, object.processors) &&
        objects[i].processors.size() <= objects[smallest].processors.size())
      smallest = i;
  object.parent = static_cast<int>(smallest);
  objects.push_back(std::move(object));
}

std::string sizeText(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.3g %s", amount, kUnits[unit]);
  return text.data();
}

std::string summary(const Machine& machine) {
  std::string text;
  const auto count = [&](Kind kind, const char* one, const char* many, bool even_none) {
    const auto number = machine.all(kind).size();
    if (number == 0 && !even_none) return;
    text += (text.empty() ? "" : ", ") + std::to_string(number) + " " + (number == 1 ? one : many);
  };
  count(Kind::package, "package", "packages", false);
  count(Kind::numa, "NUMA node", "NUMA nodes", false);
  count(Kind::core, "core", "cores", false);
  count(Kind::processor, "processor", "processors", true);
  if (machine.allowed != machine.processors())
    text += " (" + std::to_string(machine.allowed.size()) + " allowed)";
  std::uint64_t memory = 0;
  for (const int node : machine.all(Kind::numa)) memory += machine.at(node).bytes;
  if (memory > 0) text += ", " + sizeText(memory);
  count(Kind::gpu, "GPU", "GPUs", true);
  count(Kind::card, "network card", "network cards", true);
  return text;
}

} // namespace rondo::topology
