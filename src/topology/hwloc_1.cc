// Rewrites the XML elements of hwloc 1 into those of version 2.
#include "topology/hwloc_1.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::topology {
namespace {

bool isObject(const Element& element) { return element.name == "object"; }

/// The value of the attribute; "" if the element does not have it.
std::string valueOf(const Element& element, std::string_view attribute) {
  const std::string* value = element.find(attribute);
  return value ? *value : std::string();
}

bool is(const Element& element, std::string_view type) {
  return isObject(element) && valueOf(element, "type") == type;
}

void setType(Element& object, const std::string& type) {
  for (auto& [key, value] : object.attributes)
    if (key == "type") value = type;
}

/// Whether the element or one inside it is of this type.
bool has(const Element& element, std::string_view type) {
  return is(element, type) || std::any_of(element.children.begin(), element.children.end(),
                                          [&](const Element& child) { return has(child, type); });
}

/// A new object of this type with the processors of another object.
Element withProcessorsOf(const Element& other, const std::string& type) {
  Element made{.name = "object", .line = other.line, .attributes = {}, .children = {}};
  made.attributes.emplace_back("type", type);
  for (const char* set : {"cpuset", "allowed_cpuset"})
    if (const std::string* value = other.find(set)) made.attributes.emplace_back(set, *value);
  return made;
}

/// Moves the objects inside a NUMA node next to it: into the package that has exactly the node's
/// processors, or, if there is none, into a new group.
Element unfolded(Element node) {
  const auto first = std::stable_partition(node.children.begin(), node.children.end(),
                                           [](const Element& child) { return !isObject(child); });
  if (first == node.children.end()) return node;
  std::vector<Element> parts(std::make_move_iterator(first),
                             std::make_move_iterator(node.children.end()));
  node.children.erase(first, node.children.end());
  Element outer = withProcessorsOf(node, "Group");
  const auto package = std::find_if(parts.begin(), parts.end(), [&](const Element& part) {
    return is(part, "Package") && valueOf(part, "cpuset") == valueOf(node, "cpuset");
  });
  if (package != parts.end()) {
    outer = std::move(*package);
    parts.erase(package);
  }
  outer.children.insert(outer.children.begin(), std::move(node));
  std::move(parts.begin(), parts.end(), std::back_inserter(outer.children));
  return outer;
}

Element rewritten(Element element) {
  for (Element& child : element.children) child = rewritten(std::move(child));
  if (is(element, "Socket")) setType(element, "Package");
  if (is(element, "Cache"))
    setType(element, "L" + valueOf(element, "depth") +
                         (valueOf(element, "cache_type") == "2" ? "iCache" : "Cache"));
  return is(element, "NUMANode") ? unfolded(std::move(element)) : element;
}

/// The outermost object, turned into a Machine.
Element machineOf(Element root, const std::string& file) {
  if (is(root, "System")) {
    if (has(root, "Machine"))
      complain(file, root.line,
               "a System that joins machines; valid: a file of one Machine, and 'nodes' in its "
               "links file for others like it");
    setType(root, "Machine");
  }
  if (!is(root, "Machine")) {
    Element machine = withProcessorsOf(root, "Machine");
    machine.children.push_back(std::move(root));
    root = std::move(machine);
  }
  // A machine with uniform memory has no NUMANode in version 1.
  if (!has(root, "NUMANode")) {
    Element node = withProcessorsOf(root, "NUMANode");
    node.attributes.emplace_back("os_index", "0");
    if (const std::string* bytes = root.find("local_memory"))
      node.attributes.emplace_back("local_memory", *bytes);
    root.children.insert(root.children.begin(), std::move(node));
  }
  return root;
}

} // namespace

Element fromVersion1(Element topology, const std::string& file) {
  for (Element& child : topology.children)
    if (isObject(child) && child.find("type")) child = machineOf(rewritten(std::move(child)), file);
  return topology;
}

} // namespace rondo::topology
