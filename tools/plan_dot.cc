// Writes the graph of a collective's steps.
#include "tools/plan_dot.h"

#include <cstdint>
#include <vector>

#include "plan/check.h"
#include "plan/graph.h"
#include "rondo/error.h"

namespace rondo::tools {

namespace {

/// "recv+reduce", "copy", "send", ...
std::string deed(const plan::Step& step) {
  if (step.is_barrier) return "barrier";
  std::size_t received = 0;
  for (const plan::Operand& input : step.inputs) received += input.local() ? 0 : 1;
  std::string text = received > 0 ? "recv" : "";
  const auto also = [&](const char* word) {
    text += (text.empty() ? "" : "+") + std::string(word);
  };
  if (step.inputs.size() > 1) also("reduce");
  else if (step.output && received == 0) also("copy");
  else if (step.output) also("store");
  if (!step.sends.empty()) also("send");
  return text;
}

} // namespace

std::string dotText(const plan::Algorithm& algorithm, const plan::Spec& spec) {
  const auto plans = plan::buildAll(algorithm, spec);
  std::vector<std::string> complaints;
  const plan::Graph graph(plans, complaints, 1);
  if (!complaints.empty()) throw Error(ErrorCode::invalid_argument, complaints[0]);
  const auto& nodes = graph.nodes();
  std::string text = "digraph \"" + std::string(algorithm.name) +
                     "\" {\n  rankdir=TB\n"
                     "  node [shape=box, fontname=\"sans-serif\", fontsize=10]\n";
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    const plan::Graph::Node& node = nodes[n];
    if (n == 0 || nodes[n - 1].rank != node.rank)
      text += "  subgraph cluster_" + std::to_string(node.rank) + " {\n    label=\"rank " +
              std::to_string(node.rank) + "\"\n";
    text += "    n" + std::to_string(n) + " [label=\"" + std::to_string(node.lane) + "." +
            std::to_string(node.index) + " " + deed(*node.step) + "\"]\n";
    if (n + 1 == nodes.size() || nodes[n + 1].rank != node.rank) text += "  }\n";
  }
  const auto edge = [&](std::uint32_t from, std::uint32_t to, const char* style) {
    text += "  n" + std::to_string(from) + " -> n" + std::to_string(to) + style + "\n";
  };
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    graph.forEachLocalSuccessor(n, [&](std::uint32_t next) { edge(n, next, " [style=dashed]"); });
    for (const std::uint32_t message : graph.sent(n)) edge(n, graph.messages()[message].to, "");
  }
  return text + "}\n";
}

} // namespace rondo::tools
