// Prints machines as indented text.
#include "tools/topo_text.h"

#include <algorithm>
#include <map>

namespace rondo::tools {

using namespace topology;

namespace {

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

class Drawing {
 public:
  explicit Drawing(const Machine& machine) : machine_(machine) {
    for (std::size_t i = 1; i < machine.objects.size(); ++i)
      children_[machine.objects[i].parent].push_back(static_cast<int>(i));
  }

  std::string text() {
    line(0, (machine_.nodes.empty() ? machine_.name : jobText()) + ": " + summary(machine_));
    line(0, "read by " + machine_.source);
    for (const int i : of(0)) {
      if (machine_.at(i).kind == Kind::package) package(i);
      else if (machine_.at(i).kind != Kind::numa) deeper(i, 0);
      else memory(i, 0);
    }
    return std::move(text_);
  }

 private:
  std::string jobText() const {
    return std::to_string(machine_.nodes.size()) + " nodes (" + machine_.nodes.front() + " to " +
           machine_.nodes.back() + "), each a " + machine_.name;
  }

  const std::vector<int>& of(int parent) { return children_[parent]; }

  void line(int depth, const std::string& text) {
    text_ += std::string(static_cast<std::size_t>(depth) * 2, ' ') + text + "\n";
  }

  void memory(int i, int depth) {
    const Object& node = machine_.at(i);
    line(depth, node.name + (node.bytes > 0 ? ": " + sizeText(node.bytes) : ""));
  }

  void package(int i) {
    const Object& package = machine_.at(i);
    line(0, "");
    line(0, package.name + (package.model.empty() ? "" : ": " + package.model));
    if (!hasCaches(i)) line(1, coresText(i));
    for (const int child : of(i)) deeper(child, 1);
  }

  bool hasCaches(int i) {
    return std::any_of(of(i).begin(), of(i).end(),
                       [&](int child) { return machine_.at(child).kind == Kind::cache; });
  }

  void deeper(int i, int depth) {
    const Object& object = machine_.at(i);
    switch (object.kind) {
      case Kind::numa: return memory(i, depth);
      case Kind::cache:
        line(depth, cacheText(i) + ": " + coresText(i));
        for (const int child : of(i))
          if (machine_.at(child).kind == Kind::numa || machine_.at(child).kind == Kind::bridge)
            deeper(child, depth + 1);
        return;
      case Kind::bridge: return bridge(i, depth);
      case Kind::gpu:
      case Kind::card: return line(depth, deviceText(machine_, i));
      default: return;
    }
  }

  /// Bridges that lead to only one device or one other bridge are left out.
  void bridge(int i, int depth) {
    const std::size_t devices = devicesBelow(i);
    if (devices == 0) return;
    const Object& bridge = machine_.at(i);
    const bool shown = bridge.host || !leadsOn(i, devices);
    if (shown) line(depth, (bridge.host ? "PCIe root " : "PCIe switch ") + bridge.name);
    for (const int child : of(i)) deeper(child, shown ? depth + 1 : depth);
  }

  /// Whether all devices below it are below one of its children.
  bool leadsOn(int i, std::size_t devices) {
    return std::any_of(of(i).begin(), of(i).end(), [&](int child) {
      const Kind kind = machine_.at(child).kind;
      return devices == (kind == Kind::bridge ? devicesBelow(child) : 1);
    });
  }

  std::size_t devicesBelow(int i) {
    std::size_t devices = 0;
    for (const int child : of(i)) {
      const Kind kind = machine_.at(child).kind;
      devices += kind == Kind::gpu || kind == Kind::card ? 1 : devicesBelow(child);
    }
    return devices;
  }

  std::string cacheText(int i) const {
    const Object& cache = machine_.at(i);
    return cache.name + (cache.bytes > 0 ? " " + sizeText(cache.bytes) : "");
  }

  /// "cores 0-7, processors 0-15, L2 1 MiB each".
  std::string coresText(int i) {
    Processors cores;
    std::string caches;
    for (const int core : machine_.all(Kind::core)) {
      if (!contains(machine_.at(i).processors, machine_.at(core).processors)) continue;
      cores.push_back(machine_.at(core).number);
      const int cache = machine_.around(Kind::cache, machine_.at(core).processors);
      if (cache > i && machine_.at(cache).processors == machine_.at(core).processors)
        caches = ", " + cacheText(cache) + " each";
    }
    std::sort(cores.begin(), cores.end());
    std::string text = cores.empty() ? "" : "cores " + topology::text(cores);
    if (cores != machine_.at(i).processors)
      text += (text.empty() ? "" : ", ") + std::string("processors ") +
              topology::text(machine_.at(i).processors);
    return text + caches;
  }

  const Machine& machine_;
  std::map<int, std::vector<int>> children_;
  std::string text_;
};

} // namespace

std::string deviceText(const Machine& machine, int device) {
  const Object& object = machine.at(device);
  std::string text = padded(object.name, 7);
  if (!object.model.empty()) text += " " + object.model;
  for (const std::string& alias : object.aliases)
    text += (&alias == &object.aliases.front() && object.model.empty() ? " " : ", ") + alias;
  if (const std::string rail = railOf(machine, device); !rail.empty()) text += ", rail " + rail;
  return text;
}

std::string Way::text() const { return code(link) + (transport.empty() ? "" : " " + transport); }

std::string linkTable(const std::vector<std::string>& names, const Ways& ways) {
  std::size_t side = 5, width = 5;
  std::vector<std::vector<std::string>> cells(names.size());
  std::map<std::pair<LinkClass, std::string>, std::string> legend;
  for (std::size_t a = 0; a < names.size(); ++a) {
    side = std::max(side, names[a].size());
    width = std::max(width, names[a].size());
    for (std::size_t b = 0; b < names.size(); ++b) {
      const Way way = ways(a, b);
      cells[a].push_back(a == b ? "-" : way.text());
      width = std::max(width, cells[a].back().size());
      if (a != b) legend[{way.link.kind, code(way.link)}] = meaning(way.link);
    }
  }
  std::string text = std::string(side, ' ');
  for (const std::string& name : names) text += "  " + padded(name, width);
  for (std::size_t a = 0; a < names.size(); ++a) {
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n" + padded(names[a], side);
    for (const std::string& cell : cells[a]) text += "  " + padded(cell, width);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
  for (const auto& [word, means] : legend)
    text += "  " + padded(word.second, 5) + " " + means + "\n";
  return text;
}

std::string machineText(const Machine& machine) {
  std::string text = Drawing(machine).text();
  std::vector<int> devices = machine.all(Kind::gpu);
  const std::vector<int> cards = machine.all(Kind::card);
  const auto byNumber = [&](int a, int b) { return machine.at(a).number < machine.at(b).number; };
  std::sort(devices.begin(), devices.end(), byNumber);
  devices.insert(devices.end(), cards.begin(), cards.end());
  if (devices.size() < 2) return text;
  std::vector<std::string> names;
  for (const int device : devices) names.push_back(machine.at(device).name);
  return text + "\nLinks of devices\n" + linkTable(names, [&](std::size_t a, std::size_t b) {
           return Way{linkBetween(machine, devices[a], devices[b])};
         });
}

std::string seatsText(const Machine& machine, const std::vector<Seat>& seats) {
  std::string text = "\nPlaces of " + std::to_string(seats.size()) + " ranks\n";
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    const Seat& seat = seats[rank];
    names.push_back(std::to_string(rank));
    text += "rank " + padded(std::to_string(rank), 4);
    if (!machine.nodes.empty())
      text += padded(machine.nodes[static_cast<std::size_t>(seat.node)], 7) + " ";
    if (const int package = machine.around(Kind::package, seat.processors); package >= 0)
      text += machine.at(package).name + ", ";
    text += "processors " + topology::text(seat.processors);
    if (seat.gpu >= 0) text += ", " + machine.at(seat.gpu).name;
    if (seat.card >= 0) text += ", " + machine.at(seat.card).name;
    if (const std::string rail = railOf(machine, seat.card); !rail.empty())
      text += " (rail " + rail + ")";
    text += "\n";
  }
  return text + "\nLinks of ranks\n" + linkTable(names, [&](std::size_t a, std::size_t b) {
           return Way{linkBetween(machine, seats[a], seats[b])};
         });
}

} // namespace rondo::tools
