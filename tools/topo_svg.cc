// Draws machines: boxes for packages and caches, smaller boxes for devices, lines for NVLinks.
#include "tools/topo_svg.h"

#include <algorithm>
#include <functional>
#include <map>

#include "tools/svg_shapes.h"
#include "topology/link.h"

namespace rondo::tools {

using namespace topology;

namespace {

constexpr double kMargin = 24, kCore = 22, kChipWidth = 62, kChipHeight = 40, kTableCell = 44;
constexpr double kTableRow = 24;
constexpr std::size_t kMostInTable = 64;
constexpr double kRowOfCores = 16 * (kCore + 3);
constexpr double kRowOfRoots = 960;

constexpr const char* kStyle = R"(<style>
text { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 11px; fill: #1f2937 }
.page { fill: #ffffff } .node { fill: #f8fafc; stroke: #94a3b8 }
.package { fill: #eef2ff; stroke: #a5b4fc } .cache { fill: #e0e7ff; stroke: none }
.root { fill: #f0fdf4; stroke: #86efac } .switch { fill: #dcfce7; stroke: none }
.core { fill: #ffffff; stroke: #c7d2fe } .taken { fill: #4f46e5; stroke: #4338ca }
.gpu { fill: #16a34a; stroke: #15803d } .card { fill: #0369a1; stroke: #075985 }
.fabric { fill: #bbf7d0; stroke: #16a34a } .nvlink { fill: none; stroke: #16a34a; stroke-width: 2 }
.title { font-size: 18px; font-weight: 600 } .section { font-size: 13px; font-weight: 600 }
.head { font-weight: 600 } .note { fill: #64748b } .leaf { font-size: 10.5px; font-weight: 600 }
.light { fill: #ffffff; font-size: 10.5px; font-weight: 600 }
.pale { fill: #e2f3ff; font-size: 9.5px } .small { font-size: 9.5px; fill: #64748b }
.code { font-size: 10.5px } .none { fill: #f1f5f9 }
.core0 { fill: #99f6e4 } .cache0 { fill: #a7f3d0 } .socket0 { fill: #d9f99d }
.nvlink0 { fill: #86efac } .pix0 { fill: #bae6fd } .phb0 { fill: #c7d2fe }
.cross0 { fill: #fde68a } .machine0 { fill: #e5e7eb } .rail0 { fill: #e9d5ff }
.network0 { fill: #fecaca }
</style>
)";

const char* styleOf(LinkClass kind) {
  switch (kind) {
    case LinkClass::self: return "none";
    case LinkClass::process:
    case LinkClass::core: return "core0";
    case LinkClass::cache: return "cache0";
    case LinkClass::socket: return "socket0";
    case LinkClass::nvlink: return "nvlink0";
    case LinkClass::pcie_switch: return "pix0";
    case LinkClass::host_bridge: return "phb0";
    case LinkClass::cross_socket: return "cross0";
    case LinkClass::machine: return "machine0";
    case LinkClass::rail: return "rail0";
    case LinkClass::network: return "network0";
  }
  return "none";
}

/// Draws one machine.
class NodeDrawing {
 public:
  explicit NodeDrawing(const DrawnNode& node) : machine_(node.machine), ranks_(node.ranks) {
    const Machine& machine = machine_;
    for (std::size_t i = 1; i < machine.objects.size(); ++i)
      children_[machine.objects[i].parent].push_back(static_cast<int>(i));
    shape_ = {.style = "node", .title = node.name, .note = summary(machine)};
    for (const int i : children_[0])
      if (machine.at(i).kind == Kind::package) shape_.parts.push_back(package(i));
    bool first = true;
    for (const int i : children_[0]) {
      Shape part = device(i);
      if (part.style.empty()) continue;
      part.new_row = std::exchange(first, false);
      shape_.parts.push_back(std::move(part));
    }
    arrange(shape_);
    below_ = machine.nvlinks.empty() ? 0 : 46;
    shape_.h += below_;
  }

  double width() const { return shape_.w; }
  double height() const { return shape_.h; }

  std::string svg(double x, double y) {
    place(shape_, x, y);
    return framesSvg(shape_) + nvlinks() + leavesSvg(shape_);
  }

 private:
  Shape package(int i) {
    const Object& object = machine_.at(i);
    std::uint64_t bytes = 0;
    for (const int node : machine_.all(Kind::numa))
      if (contains(object.processors, machine_.at(node).processors))
        bytes += machine_.at(node).bytes;
    Shape box{.style = "package",
              .title = object.name + (object.model.empty() ? "" : "  " + object.model),
              .note = bytes > 0 ? sizeText(bytes) : "",
              .widest = kRowOfRoots};
    addCores(box, i);
    bool first = true;
    const std::function<void(int)> addDevices = [&](int parent) {
      for (const int child : children_[parent]) {
        Shape part = device(child);
        if (part.style.empty()) {
          if (machine_.at(child).kind == Kind::cache) addDevices(child);
          continue;
        }
        part.new_row = std::exchange(first, false);
        box.parts.push_back(std::move(part));
      }
    };
    addDevices(i);
    return box;
  }

  /// Adds the largest caches with their cores, or only the cores if there are no caches.
  void addCores(Shape& box, int package) {
    bool any = false;
    for (const int i : children_[package]) {
      const Object& cache = machine_.at(i);
      if (cache.kind != Kind::cache) continue;
      any = true;
      Shape part{.style = "cache",
                 .title = cache.name + (cache.bytes > 0 ? " " + sizeText(cache.bytes) : ""),
                 .widest = kRowOfCores};
      addCells(part, cache.processors);
      box.parts.push_back(std::move(part));
    }
    if (any) return;
    Shape all{.style = "cache", .widest = kRowOfCores};
    addCells(all, machine_.at(package).processors);
    box.parts.push_back(std::move(all));
  }

  void addCells(Shape& box, const Processors& in) {
    for (const int i : machine_.all(Kind::core)) {
      const Object& core = machine_.at(i);
      if (!contains(in, core.processors)) continue;
      const std::string here = ranksOn(core.processors);
      box.parts.push_back({.style = here.empty() ? "core" : "core taken",
                           .title = here.size() > 3 ? "" : here,
                           .tip = core.name + ", processors " + text(core.processors) +
                                  (here.empty() ? "" : ", rank " + here),
                           .object = i,
                           .w = kCore,
                           .h = kCore,
                           .dark = !here.empty()});
    }
  }

  /// Numbers of the ranks on these processors, except ranks that may use the whole machine.
  std::string ranksOn(const Processors& processors) const {
    std::string here;
    for (const auto& [rank, seat] : ranks_)
      if (seat.processors.size() < machine_.processors().size() &&
          !both(processors, seat.processors).empty())
        here += (here.empty() ? "" : ",") + std::to_string(rank);
    return here;
  }

  std::size_t devicesBelow(int i) {
    const Kind kind = machine_.at(i).kind;
    if (kind == Kind::gpu || kind == Kind::card) return 1;
    std::size_t devices = 0;
    if (kind == Kind::bridge)
      for (const int child : children_[i]) devices += devicesBelow(child);
    return devices;
  }

  /// Returns the box of a device, or a bridge's frame with its devices; without style if there are
  /// none. A bridge inside PCI that leads to only one device or bridge is left out.
  Shape device(int i) {
    const Object& object = machine_.at(i);
    if (object.kind == Kind::gpu || object.kind == Kind::card) return chip(i);
    if (devicesBelow(i) == 0) return {.style = ""};
    Shape box{.style = object.host ? "root" : "switch",
              .title = (object.host ? "PCIe root " : "switch ") + object.name,
              .widest = object.host ? kRowOfRoots : 0};
    for (const int child : children_[i])
      if (Shape part = device(child); !part.style.empty()) box.parts.push_back(std::move(part));
    if (!object.host && box.parts.size() == 1) return Shape(std::move(box.parts.front()));
    return box;
  }

  Shape chip(int i) const {
    const Object& object = machine_.at(i);
    std::string tip = object.name + " " + object.model;
    for (const std::string& alias : object.aliases) tip += ", " + alias;
    std::string note;
    for (const auto& [rank, seat] : ranks_)
      if (seat.gpu == i) note += (note.empty() ? "rank " : ", ") + std::to_string(rank);
    if (const std::string rail = railOf(machine_, i); !rail.empty()) note = "rail " + rail;
    return {.style = object.kind == Kind::gpu ? "gpu" : "card",
            .title = object.name,
            .note = note,
            .tip = tip,
            .object = i,
            .w = std::max(kChipWidth, widthOf(object.name) + 16),
            .h = kChipHeight,
            .dark = true};
  }

  static void find(const Shape& shape, std::map<int, const Shape*>& chips) {
    if (shape.style == "gpu") chips[shape.object] = &shape;
    for (const Shape& part : shape.parts) find(part, chips);
  }

  std::map<int, const Shape*> gpusByNumber() const {
    std::map<int, const Shape*> chips, by_number;
    find(shape_, chips);
    for (const auto& [object, chip] : chips) by_number[machine_.at(object).number] = chip;
    return by_number;
  }

  std::string nvlinks() const {
    std::map<int, int> switched; // links of each GPU
    std::vector<NvLink> direct;
    for (const NvLink& link : machine_.nvlinks) {
      if (link.switched) switched[link.a] = switched[link.b] = link.links;
      else direct.push_back(link);
    }
    return arcs(direct) + (switched.empty() ? "" : bar(switched));
  }

  /// Arcs between GPUs, deeper for GPUs that are farther apart, with the number of links; if all
  /// numbers are equal, the number is written only once.
  std::string arcs(const std::vector<NvLink>& links) const {
    const auto gpus = gpusByNumber();
    const double low = shape_.y + shape_.h - below_;
    const bool alike = links.size() > 1 && std::all_of(links.begin(), links.end(), [&](auto& one) {
                         return one.links == links.front().links;
                       });
    std::string lines, labels;
    for (const NvLink& link : links) {
      const Shape &a = *gpus.at(link.a), &b = *gpus.at(link.b);
      const double xa = a.x + a.w / 2, xb = b.x + b.w / 2, ya = a.y + a.h, yb = b.y + b.h;
      const double deep = low + 10 + 40 * (xb > xa ? xb - xa : xa - xb) / shape_.w;
      lines += "<path class=\"nvlink\" d=\"M" + px(xa) + " " + px(ya) + " C" + px(xa) + " " +
               px(deep) + " " + px(xb) + " " + px(deep) + " " + px(xb) + " " + px(yb) + "\"/>\n";
      if (!alike)
        labels += textSvg((xa + xb) / 2, (ya + yb) / 8 + deep * 0.75 + 13, "small", "middle",
                          "NVLink x" + std::to_string(link.links));
    }
    if (alike)
      labels += textSvg(shape_.x + shape_.w - 8, shape_.y + shape_.h - 8, "note", "end",
                        "NVLink, " + std::to_string(links.front().links) + " between two GPUs");
    return lines + labels;
  }

  /// Lines from the GPUs down to a bar that represents the switches.
  std::string bar(const std::map<int, int>& switched) const {
    const auto gpus = gpusByNumber();
    const double low = shape_.y + shape_.h - below_;
    std::string svg;
    for (const auto& [gpu, links] : switched) {
      const Shape& chip = *gpus.at(gpu);
      svg += "<path class=\"nvlink\" d=\"M" + px(chip.x + chip.w / 2) + " " + px(chip.y + chip.h) +
             " V" + px(low + 6) + "\"/>\n";
    }
    return svg + rectSvg(shape_.x + 8, low + 6, shape_.w - 16, 28, "fabric") +
           textSvg(shape_.x + shape_.w / 2, low + 24, "head", "middle",
                   "NVSwitch: " + std::to_string(switched.begin()->second) + " links of each of " +
                       std::to_string(switched.size()) + " GPUs");
  }

  const Machine& machine_;
  const std::vector<std::pair<int, Seat>>& ranks_;
  std::map<int, std::vector<int>> children_;
  Shape shape_;
  double below_ = 0;
};

/// A table of coloured cells with names on two sides, and a legend.
class Table {
 public:
  Table(std::string title, std::vector<std::string> names, const Ways& ways)
      : title_(std::move(title)), names_(std::move(names)) {
    for (const std::string& name : names_) {
      side_ = std::max(side_, widthOf(name) + 14);
      cell_ = std::max(cell_, widthOf(name) + 8);
    }
    for (std::size_t a = 0; a < names_.size(); ++a)
      for (std::size_t b = 0; b < names_.size(); ++b) {
        const Way& way = ways_.emplace_back(ways(a, b));
        if (a == b) continue;
        cell_ = std::max(cell_, widthOf(way.text()) + 8);
        legend_[{way.link.kind, code(way.link)}] = way.link;
      }
  }

  double width() const { return side_ + cell_ * count() + 270; }
  double height() const {
    return 44 + kTableRow * std::max(count(), static_cast<double>(legend_.size()));
  }

  std::string svg(double x, double y) const {
    std::string svg = textSvg(x, y + 14, "section", "start", title_);
    const double left = x + side_, top = y + 44;
    for (std::size_t a = 0; a < names_.size(); ++a) {
      const auto at = static_cast<double>(a);
      svg += textSvg(left + (at + 0.5) * cell_, top - 8, "code", "middle", names_[a]);
      svg += textSvg(left - 8, top + at * kTableRow + 16, "code", "end", names_[a]);
      for (std::size_t b = 0; b < names_.size(); ++b) {
        const Way& way = ways_[a * names_.size() + b];
        const double cx = left + static_cast<double>(b) * cell_, cy = top + at * kTableRow;
        svg += rectSvg(cx + 1, cy + 1, cell_ - 2, kTableRow - 2,
                       a == b ? "none" : styleOf(way.link.kind));
        if (a != b) svg += textSvg(cx + cell_ / 2, cy + 16, "code", "middle", way.text());
      }
    }
    double row = top;
    for (const auto& [word, link] : legend_) {
      const double at = left + cell_ * count() + 24;
      svg += rectSvg(at, row + 2, kTableCell, kTableRow - 6, styleOf(link.kind));
      svg += textSvg(at + kTableCell / 2, row + 15, "code", "middle", word.second);
      svg += textSvg(at + kTableCell + 10, row + 15, "code", "start", meaning(link));
      row += kTableRow;
    }
    return svg;
  }

 private:
  double count() const { return static_cast<double>(names_.size()); }

  const std::string title_;
  const std::vector<std::string> names_;
  std::vector<Way> ways_;
  std::map<std::pair<LinkClass, std::string>, Link> legend_;
  double side_ = 30, cell_ = kTableCell;
};

std::vector<std::string> numbered(std::size_t ranks) {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < ranks; ++rank) names.push_back(std::to_string(rank));
  return names;
}

std::string page(const std::string& title, const std::string& note,
                 const std::vector<DrawnNode>& nodes, const Table& table, std::size_t named) {
  std::vector<NodeDrawing> cards(nodes.begin(), nodes.end());
  const std::size_t columns = cards.size() > 1 ? 2 : 1;
  double y = kMargin + 44, width = 0;
  std::string body;
  for (std::size_t i = 0; i < cards.size(); i += columns) {
    double x = kMargin, highest = 0;
    for (std::size_t j = i; j < std::min(i + columns, cards.size()); ++j) {
      body += cards[j].svg(x, y);
      x += cards[j].width() + kMargin;
      highest = std::max(highest, cards[j].height());
    }
    width = std::max(width, x);
    y += highest + kMargin;
  }
  if (named > 1 && named <= kMostInTable) {
    body += table.svg(kMargin, y);
    width = std::max(width, kMargin + table.width());
    y += table.height() + kMargin;
  }
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + px(width) + "\" height=\"" + px(y) +
         "\" viewBox=\"0 0 " + px(width) + " " + px(y) + "\">\n" + kStyle +
         rectSvg(0, 0, width, y, "page") + textSvg(kMargin, kMargin + 12, "title", "start", title) +
         textSvg(kMargin, kMargin + 32, "note", "start", note) + body + "</svg>\n";
}

} // namespace

std::string jobSvg(const std::string& title, const std::string& note,
                   const std::vector<DrawnNode>& nodes, const Ways& ways) {
  std::size_t ranks = 0;
  for (const DrawnNode& node : nodes) ranks += node.ranks.size();
  return page(title, note, nodes, {"How ranks are linked", numbered(ranks), ways}, ranks);
}

std::string machineSvg(const Machine& machine, const std::vector<Seat>& seats) {
  std::vector<DrawnNode> nodes;
  for (const std::string& name : machine.nodes) nodes.push_back({name, machine, {}});
  if (nodes.empty()) nodes.push_back({machine.name, machine, {}});
  for (std::size_t rank = 0; rank < seats.size(); ++rank)
    nodes[static_cast<std::size_t>(seats[rank].node)].ranks.emplace_back(static_cast<int>(rank),
                                                                         seats[rank]);
  const std::string title = nodes.size() == 1
                                ? nodes.front().name
                                : std::to_string(nodes.size()) + " nodes, each a " + machine.name;
  if (!seats.empty())
    return jobSvg(
        title,
        std::to_string(seats.size()) + " ranks, numbered on their cores; read by " + machine.source,
        nodes, [&](std::size_t a, std::size_t b) {
          return Way{linkBetween(machine, seats[a], seats[b])};
        });
  std::vector<int> devices = machine.all(Kind::gpu);
  std::sort(devices.begin(), devices.end(),
            [&](int a, int b) { return machine.at(a).number < machine.at(b).number; });
  const std::vector<int> cards = machine.all(Kind::card);
  devices.insert(devices.end(), cards.begin(), cards.end());
  std::vector<std::string> names;
  for (const int device : devices) names.push_back(machine.at(device).name);
  const Table table("How devices are linked", names, [&](std::size_t a, std::size_t b) {
    return Way{linkBetween(machine, devices[a], devices[b])};
  });
  return page(title, "read by " + machine.source, nodes, table, names.size());
}

} // namespace rondo::tools
