// Decodes Chakra execution traces by the rules of the wire format, and compares them with the
// tasks.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/test.h"
#include "tools/simulate_train_chakra.h"

namespace rondo::test {
namespace {

using namespace tools;

std::uint64_t takeVarint(std::string_view& text) {
  std::uint64_t value = 0;
  for (int shift = 0; !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::string_view takeBytes(std::string_view& text) {
  const auto size = static_cast<std::size_t>(takeVarint(text));
  REQUIRE(size <= text.size());
  const std::string_view bytes = text.substr(0, size);
  text.remove_prefix(size);
  return bytes;
}

/// A message: its fields in order, each a number or bytes.
struct Field {
  std::uint64_t number = 0;
  std::string_view bytes = {};
};
std::multimap<int, Field> decoded(std::string_view message) {
  std::multimap<int, Field> fields;
  while (!message.empty()) {
    const std::uint64_t key = takeVarint(message);
    REQUIRE((key % 8 == 0 || key % 8 == 2));
    Field field;
    if (key % 8 == 0) field.number = takeVarint(message);
    else field.bytes = takeBytes(message);
    fields.emplace(static_cast<int>(key / 8), field);
  }
  return fields;
}

/// The nodes of a trace, after its metadata.
std::vector<std::multimap<int, Field>> nodesOf(std::string_view trace) {
  CHECK(decoded(takeBytes(trace)).find(1)->second.bytes == "0.0.4");
  std::vector<std::multimap<int, Field>> nodes;
  while (!trace.empty()) nodes.push_back(decoded(takeBytes(trace)));
  return nodes;
}

/// By name; each must have the type that ASTRA-sim reads.
std::map<std::string, std::uint64_t> attributesOf(const std::multimap<int, Field>& node) {
  std::map<std::string, std::uint64_t> attributes;
  for (auto [at, end] = node.equal_range(10); at != end; ++at) {
    const auto attribute = decoded(at->second.bytes);
    REQUIRE(attribute.size() == 2);
    const std::string name(attribute.find(1)->second.bytes);
    const bool wide = name == "comm_type" || name == "comm_size";
    INFO(name);
    CHECK(attribute.rbegin()->first == (name == "is_cpu_op" ? 27 : wide ? 9 : 7));
    attributes[name] = attribute.rbegin()->second.number;
  }
  return attributes;
}

} // namespace

TEST_CASE("Chakra: passes, collectives, messages and what they wait for", "[train]") {
  SimulatedSteps steps;
  steps.ranks = {0, 1};
  const auto zero = steps.graph.addResource({.owner = "rank 0", .rank = 0});
  const auto one = steps.graph.addResource({.owner = "rank 1", .rank = 1});
  const auto net = steps.graph.addResource({.owner = "network"});
  const auto link = steps.graph.addResource({.owner = "network", .rank = 0});
  const auto pass = steps.graph.add({.name = "forward", .seconds = 300e-6, .resources = {zero}});
  const auto message = steps.graph.add({.name = "activation",
                                        .resources = {link},
                                        .after = {pass},
                                        .communication = true,
                                        .bytes = 70000,
                                        .to = 1});
  const auto next = steps.graph.add({.name = "forward", .resources = {one}, .after = {message}});
  steps.graph.add({.name = "sum",
                   .resources = {net},
                   .after = {pass, next},
                   .communication = true,
                   .collective = Collective::reducescatter,
                   .bytes = 1 << 20});
  const std::string traces[] = {chakraTrace(steps, 0), chakraTrace(steps, 1),
                                chakraTrace(steps, 5)};
  CHECK(traces[2] == traces[0]); // rank 0 stands for ranks without tasks of their own
  const auto first = nodesOf(traces[0]), second = nodesOf(traces[1]);
  REQUIRE(first.size() == 3);
  REQUIRE(second.size() == 3);
  const auto typesOf = [](const auto& nodes) {
    std::vector<std::uint64_t> types;
    for (const auto& node : nodes) types.push_back(node.find(3)->second.number);
    return types;
  };
  CHECK(typesOf(first) == std::vector<std::uint64_t>{4, 5, 7});  // pass, send, collective
  CHECK(typesOf(second) == std::vector<std::uint64_t>{6, 4, 7}); // receive, pass, collective
  CHECK(first[0].find(7)->second.number == 300);
  CHECK(first[1].find(5)->second.bytes == std::string_view("\0", 1)); // waits for node 0
  CHECK(second[0].count(5) == 0);
  CHECK(second[1].find(5)->second.bytes == "\1");
  CHECK(attributesOf(first[1]) == std::map<std::string, std::uint64_t>{{"is_cpu_op", 0},
                                                                       {"comm_size", 70000},
                                                                       {"comm_src", 0},
                                                                       {"comm_dst", 1},
                                                                       {"comm_tag", 1}});
  CHECK(attributesOf(first[2]) == std::map<std::string, std::uint64_t>{
                                      {"is_cpu_op", 0}, {"comm_type", 7}, {"comm_size", 1 << 20}});
}

} // namespace rondo::test
