// The training report as JSON (--json).
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/train.h"
#include "tools/version.h"

namespace rondo::tools {

namespace {

nlohmann::ordered_json pipelineJson(const TrainPipeline& pipeline) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const TrainPipeline::Part& part : pipeline.parts)
    parts.push_back({{"layers", {part.begin, part.end - 1}},
                     {"forward_ms", part.forward},
                     {"backward_ms", part.backward}});
  return {{"parts", parts},
          {"idle_even", pipeline.idle_even},
          {"idle_predicted", pipeline.idle_predicted},
          {"idle_measured", pipeline.idle_measured}};
}

nlohmann::ordered_json json(const auto& value) { return value; }
nlohmann::ordered_json json(const TrainJitter& jitter) {
  return {jitter.probability, jitter.factor};
}
nlohmann::ordered_json json(const std::vector<TrainSlowRank>& slow) {
  auto all = nlohmann::ordered_json::array();
  for (const TrainSlowRank& one : slow) all.push_back({one.rank, one.factor});
  return all;
}

nlohmann::ordered_json optionsJson(const TrainConfig& config) {
  nlohmann::ordered_json all;
  for (const TrainOption& option : trainOptionTable())
    if (option.in_json)
      all[std::string(option.name)] =
          option.read(config.options, [](const auto& value) { return json(value); });
  all["deterministic"] = config.deterministic;
  return all;
}

} // namespace

std::string trainOptionsText(const TrainConfig& config) {
  return optionsJson(config).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string hashText(std::uint64_t hash) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

std::string trainJsonText(const TrainConfig& config, const TrainReport& report, int ranks) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["version"] = 1;
  json["rondo"] = kVersion;
  json["args"] = config.arguments;
  json["options"] = optionsJson(config);
  json["ranks"] = ranks;
  json["test_accuracy"] = report.test_accuracy;
  json["epoch_loss"] = report.epoch_loss;
  json["epoch_accuracy"] = report.epoch_accuracy;
  if (config.options.gradients.noise_scale) json["epoch_noise_scale"] = report.epoch_noise_scale;
  json["parameter_hash"] = hashText(report.parameter_hash);
  json["steps"] = report.steps;
  json["stopped"] = report.stopped;
  const TrainTimes& times = report.times;
  json["step_ms"] = times.step;
  json["step_parts_ms"] = {{"data", times.data},
                           {"forward", times.forward},
                           {"backward", times.backward},
                           {"exposed_communication", times.communication},
                           {"optimizer", times.optimizer}};
  json["samples_per_second"] = report.samples_per_second;
  json["bytes_per_step"] = report.bytes_per_step;
  json["held_bytes"] = report.held_bytes;
  json["staleness"] = report.staleness;
  json["pulled"] = report.pulled;
  json["idle"] = report.idle;
  json["seconds"] = report.seconds;
  if (!report.pipeline.parts.empty()) json["pipeline"] = pipelineJson(report.pipeline);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace rondo::tools
