// Counts plans as GPUs run them, and prints counts and predicted times in columns.
#include "tools/plan_device.h"

#include <algorithm>
#include <cstdio>

#include "plan/registry.h"
#include "planner/choose.h"
#include "rondo/error.h"
#include "tools/bench/shape.h"

namespace rondo::tools {

namespace {

constexpr const char* kNames[] = {"bytes",       "algorithm", "tiles",    "blocks",
                                  "turns",       "steps",     "messages", "fences/message",
                                  "moved/bound", "launch_us", "steps_us", "moving_us",
                                  "memory_us",   "link_us",   "total_us"};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 1e5 ? "%.0f" : "%.4g", value);
  return text;
}

/// `algorithm`: empty for the planner's choice.
plan::Choice choiceFor(const DeviceQuestion& question, const std::string& algorithm,
                       const plan::Spec& spec, std::size_t block) {
  if (algorithm.empty()) return planner::choose(spec, block, question.policy);
  const plan::Choice choice = plan::parseChoice(algorithm);
  if (!choice.algorithm->supports(choice.applied(spec)))
    throw Error(ErrorCode::invalid_argument, algorithm + " does not support " +
                                                 std::string(name(question.collective)) + " on " +
                                                 std::to_string(question.ranks) + " ranks");
  return choice;
}

std::vector<std::string> row(const DeviceQuestion& question, const std::string& algorithm,
                             std::size_t bytes) {
  const plan::Spec spec{
      .collective = question.collective, .ranks = question.ranks, .root = question.root};
  const std::size_t block = bytes / blocksOfSize(question.collective, question.ranks);
  const plan::Choice choice = choiceFor(question, algorithm, spec, block);
  const engine::DeviceCounts counts =
      engine::countOnDevices(*choice.algorithm, choice.applied(spec), block / sizeof(float),
                             DataType::float32, question.machine);
  const engine::DeviceTime time =
      engine::predictOnDevices(counts, question.machine, question.ranks, question.rates);
  std::vector<std::string> words{std::to_string(bytes), choice.text()};
  for (const std::uint64_t count :
       {counts.tiles, counts.blocks, counts.turns,
        static_cast<std::uint64_t>(counts.dependent_steps), counts.messages})
    words.push_back(std::to_string(count));
  for (const double value : {counts.fencesPerMessage(), counts.ofBound(), time.launch, time.steps,
                             time.moving, time.memory, time.link, time.total()})
    words.push_back(number(value));
  return words;
}

} // namespace

std::string deviceTable(const DeviceQuestion& question) {
  std::vector<std::vector<std::string>> rows{{std::begin(kNames), std::end(kNames)}};
  std::vector<std::string> algorithms = question.algorithms;
  if (algorithms.empty()) algorithms.emplace_back();
  for (const std::size_t bytes : question.bytes)
    for (const std::string& algorithm : algorithms) rows.push_back(row(question, algorithm, bytes));
  std::string text;
  for (const auto& words : rows) {
    for (std::size_t c = 0; c < words.size(); ++c) {
      std::size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[c].size());
      text += std::string(width - words[c].size() + (c == 0 ? 0 : 2), ' ') + words[c];
    }
    text += "\n";
  }
  return text;
}

} // namespace rondo::tools
