// Writes the benchmark's results as JSON (-J).
#include "tools/bench/json.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "rondo/detail/writable.h"
#include "rondo/error.h"

namespace rondo::tools {

namespace {

using Json = nlohmann::ordered_json;

Json timingJson(const std::optional<Timing>& timing) {
  if (!timing) return nullptr;
  Json json;
  json["time"] = timing->time;
  json["alg_bw"] = timing->alg_bw;
  json["bus_bw"] = timing->bus_bw ? Json(*timing->bus_bw) : Json(nullptr);
  json["nwrong"] = timing->wrong ? Json(*timing->wrong) : Json(nullptr);
  json["mean"] = timing->times.mean;
  json["min"] = timing->times.min;
  json["max"] = timing->times.max;
  json["p50"] = timing->times.p50;
  json["p95"] = timing->times.p95;
  json["p99"] = timing->times.p99;
  json["calls"] = timing->calls;
  json["calls_per_sample"] = timing->calls_per_sample;
  return json;
}

Json rowJson(const Row& row) {
  Json json;
  json["size"] = row.bytes;
  json["count"] = row.count;
  json["type"] = name(row.type);
  json["redop"] = row.op ? name(*row.op) : "none";
  json["root"] = row.root;
  json["algorithm"] = row.algorithm;
  json["out_of_place"] = timingJson(row.out_of_place);
  json["in_place"] = timingJson(row.in_place);
  return json;
}

Json configJson(const BenchConfig& config) {
  const char* const combine[] = {"rank0", "average", "min", "max"};
  Json json;
  json["collective"] = name(config.collective);
  json["min_bytes"] = config.min_bytes;
  json["max_bytes"] = config.max_bytes;
  json["step_bytes"] = config.step_bytes;
  json["step_factor"] = config.factor;
  json["iters"] = config.iterations;
  json["warmup_iters"] = config.warmsUpByTime() ? Json() : Json(config.warmUpCalls());
  json["agg_iters"] = config.aggregate;
  json["check"] = config.check;
  json["average"] = combine[static_cast<std::size_t>(config.combine)];
  json["statistic"] = config.statistic == Statistic::median ? "median" : "mean";
  json["blocking"] = config.blocking;
  json["deterministic"] = config.deterministic;
  json["mapped"] = config.mapped;
  json["device"] = config.onGpu() ? "cuda" : "cpu";
  json["ranks_per_gpu"] = config.onGpu() ? Json(config.ranks_per_gpu) : Json(nullptr);
  json["graph_replays"] = config.replays;
  return json;
}

} // namespace

std::string jsonText(const BenchConfig& config, const Environment& environment,
                     const std::vector<TableResult>& tables) {
  Json json;
  json["version"] = 1;
  json["rondo"] = environment.version;
  json["args"] = config.arguments;
  json["machine"] = {{"host", environment.host},
                     {"processor", environment.processor},
                     {"cores", environment.cores},
                     {"gpu", config.onGpu() ? Json(environment.gpu) : Json(nullptr)}};
  json["config"] = configJson(config);
  json["config"]["ranks"] = environment.ranks;
  json["config"]["kind"] = environment.kind;
  json["config"]["transport"] = environment.transport;
  json["results"] = Json::array();
  std::size_t damaged = 0, memory = 0;
  double sum = 0;
  std::size_t with_average = 0;
  bool good = true;
  for (const TableResult& table : tables) {
    for (const Row& row : table.rows) json["results"].push_back(rowJson(row));
    damaged += table.out_of_bounds;
    memory = std::max(memory, table.memory);
    good = good && table.good();
    if (const auto average = table.averageBusBandwidth()) {
      sum += *average;
      ++with_average;
    }
  }
  json["memory_of_a_rank"] = memory;
  json["out_of_bounds"] = {{"count", damaged}, {"okay", damaged == 0}};
  json["average_bus_bandwidth"] = {
      {"bandwidth",
       with_average == 0 ? Json(nullptr) : Json(sum / static_cast<double>(with_average))},
      {"okay", good}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void requireWritable(const std::string& option, const std::string& path) {
  if (const auto why = detail::whyNotWritable(path))
    throw Error(ErrorCode::system, option + ": cannot write '" + path + "': " + why.message());
}

void writeFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw Error(ErrorCode::system, "cannot write '" + path + "': " + std::strerror(errno));
}

} // namespace rondo::tools
