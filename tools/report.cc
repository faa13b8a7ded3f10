// `rondo report`: shows what the dumps of all ranks say together.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rondo/error.h"
#include "tools/command.h"
#include "tools/report_judge.h"
#include "tools/report_read.h"

namespace rondo::tools {

namespace {

struct ReportConfig {
  std::string folder, job;
  bool json = false;
};

std::string secondsText(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", static_cast<double>(nanoseconds) * 1e-9);
  return text;
}

/// "in AllReduce #412 (sum of 1000 float) by ring for 5.2 s, lane 0 step 1, waiting ...".
std::string stateText(const RecordedRank& rank) {
  if (!rank.open) return "closed the communicator after call #" + std::to_string(rank.entered);
  if (const RecordedCall* call = inFlight(rank)) {
    std::string text = "in " + call->text();
    if (!call->algorithm.empty()) text += " by " + call->algorithm;
    text += " for " + secondsText((call->ended != 0 ? call->ended : rank.time) - call->created);
    for (const RecordedWait& wait : rank.waits)
      if (wait.number == call->number && !wait.text.empty()) text += ", " + wait.text;
    return text;
  }
  if (rank.calls.empty()) return "in no call; it has made none";
  const RecordedCall& last = rank.calls.back();
  return "in no call; the last one, " + last.text() + ", ended " +
         secondsText(rank.time - last.ended) + " ago";
}

void printText(const Dumps& dumps) {
  std::printf("job %s: %d dumps\n", dumps.job.c_str(), dumps.files);
  for (const auto& [file, why] : dumps.refused)
    std::printf("refused: %s: %s\n", file.c_str(), why.c_str());
  for (const auto& [id, ranks] : dumps.communicators) {
    const RecordedRank& first = ranks.begin()->second;
    std::printf("\ncommunicator %s: %d ranks, %s\n", id.c_str(), first.size,
                first.transports.c_str());
    const auto found = judge(dumps, id);
    for (const Finding& finding : found)
      std::printf("  %s%s\n", finding.culprit >= 0 ? "CULPRIT: " : "", finding.text.c_str());
    if (found.empty()) std::printf("  nothing is wrong: no rank waits for long\n");
    for (const auto& [number, rank] : ranks)
      std::printf("    rank %d, %s%s: %s\n", number, rank.process.c_str(),
                  rank.stopped ? " (stopped)" : "", stateText(rank).c_str());
  }
}

void printJson(const Dumps& dumps) {
  using nlohmann::ordered_json;
  ordered_json page{{"job", dumps.job}, {"dumps", dumps.files}};
  page["refused"] = page["culprits"] = page["communicators"] = ordered_json::array();
  for (const auto& [file, why] : dumps.refused)
    page["refused"].push_back({{"file", file}, {"why", why}});
  for (const auto& [id, ranks] : dumps.communicators) {
    ordered_json findings = ordered_json::array(), states = ordered_json::array();
    for (const Finding& finding : judge(dumps, id)) {
      findings.push_back(
          {{"kind", finding.kind}, {"culprit", finding.culprit}, {"text", finding.text}});
      if (finding.culprit >= 0)
        page["culprits"].push_back(
            {{"communicator", id}, {"rank", finding.culprit}, {"kind", finding.kind}});
    }
    for (const auto& [number, rank] : ranks) {
      const RecordedCall* const call = inFlight(rank);
      states.push_back({{"rank", number},
                        {"process", rank.process},
                        {"stopped", rank.stopped},
                        {"open", rank.open},
                        {"entered", rank.entered},
                        {"in_flight", call ? ordered_json(call->text()) : ordered_json()},
                        {"state", stateText(rank)}});
    }
    page["communicators"].push_back({{"communicator", id},
                                     {"size", ranks.begin()->second.size},
                                     {"transports", ranks.begin()->second.transports},
                                     {"findings", findings},
                                     {"ranks", states}});
  }
  std::printf("%s\n", page.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

int report(const ReportConfig& config) {
  const Dumps dumps = readDumps(config.folder, config.job);
  if (dumps.communicators.empty()) {
    for (const auto& [file, why] : dumps.refused)
      std::fprintf(stderr, "rondo: refused: %s: %s\n", file.c_str(), why.c_str());
    throw Error(ErrorCode::system,
                "no dump of " + (config.job.empty() ? "a job" : "job " + config.job) + " in " +
                    config.folder + ": make them by `rondo dump`, or with RONDO_DUMP");
  }
  config.json ? printJson(dumps) : printText(dumps);
  for (const auto& [id, ranks] : dumps.communicators)
    if (!judge(dumps, id).empty()) return kFailure;
  return kSuccess;
}

} // namespace

Action addReport(CLI::App& parent, const std::vector<std::string>&) {
  auto config = std::make_shared<ReportConfig>();
  CLI::App* app =
      parent.add_subcommand("report", "Show from dumps which rank waits for which, and why");
  app->add_option("folder", config->folder, "Folder with the dumps of all ranks")->required();
  app->add_flag("--json", config->json, "Print JSON");
  app->add_option("--job", config->job, "The job to report on. Default: the one of most ranks");
  app->footer(
      "For each communicator it says which rank is in which call, and names the culprit: a rank\n"
      "that never entered the call in which others wait, left, is stopped, has no dump, or makes\n"
      "a different call. Dumps come from `rondo dump`, or from the ranks themselves if RONDO_DUMP\n"
      "names a folder. A file that is broken or of another job is refused by name. The newest\n"
      "dump of each rank counts. Clocks of machines that differ by seconds make the times wrong.\n"
      "Exit status: 0: no rank waits for long; 1: something is wrong.\n\n"
      "Examples:\n"
      "  rondo dump all -o dumps && rondo report dumps\n"
      "  RONDO_DUMP=dumps rondo run -p 4 ./program; rondo report dumps\n");
  return [config] { return report(*config); };
}

} // namespace rondo::tools
