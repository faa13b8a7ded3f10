// `rondo report`: shows what the dumps of all ranks say together.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rondo/detail/writable.h"
#include "rondo/error.h"
#include "tools/command.h"
#include "tools/command_options.h"
#include "tools/report_cause.h"
#include "tools/report_judge.h"
#include "tools/report_read.h"
#include "tools/report_text.h"
#include "tools/report_torch.h"
#include "tools/report_trace.h"

namespace rondo::tools {

namespace {

struct ReportConfig {
  std::string folder, job, output, torch;
  bool json = false, trace = false;
};

void printLine(std::FILE* to, const std::string& line) {
  std::fprintf(to, "%s\n", printable(line).c_str());
}
void printLine(const std::string& line) { printLine(stdout, line); }

using Findings = std::map<std::string, std::vector<Finding>>; ///< by communicator

void printText(const Dumps& dumps, const Findings& all) {
  printLine("job " + dumps.job + ": " + std::to_string(dumps.files) +
            (dumps.files == 1 ? " dump" : " dumps"));
  for (const auto& [file, why] : dumps.refused) printLine("refused: " + file + ": " + why);
  for (const std::string& warning : dumps.warnings) printLine("warning: " + warning);
  for (const auto& [id, ranks] : dumps.communicators) {
    const RecordedRank& first = ranks.begin()->second;
    printLine("");
    printLine("communicator " + id + ": " + std::to_string(first.size) + " ranks, " +
              first.transports);
    const std::vector<Finding>& found = all.at(id);
    for (const Finding& finding : found)
      printLine((finding.culprit >= 0 ? "  CULPRIT: " : "  ") + finding.text);
    if (found.empty()) printLine("  nothing is wrong: no rank waits for long");
    for (const auto& [number, rank] : ranks)
      printLine("    rank " + std::to_string(number) + ", " + rank.process +
                (rank.stopped ? " (stopped)" : "") + ": " + stateText(rank));
    std::vector<int> missing;
    for (int rank = 0; rank < first.size; ++rank)
      if (!ranks.contains(rank)) missing.push_back(rank);
    if (!missing.empty())
      printLine("    " + ranksText(missing) +
                ": no dump here (ended before it was made, or on another machine)");
  }
}

void printJson(const Dumps& dumps, const Findings& all) {
  using nlohmann::ordered_json;
  ordered_json page{{"job", dumps.job}, {"dumps", dumps.files}};
  page["warnings"] = dumps.warnings;
  page["refused"] = page["culprits"] = page["communicators"] = ordered_json::array();
  for (const auto& [file, why] : dumps.refused)
    page["refused"].push_back({{"file", file}, {"why", why}});
  for (const auto& [id, ranks] : dumps.communicators) {
    ordered_json findings = ordered_json::array(), states = ordered_json::array();
    for (const Finding& finding : all.at(id)) {
      findings.push_back(
          {{"kind", finding.kind}, {"culprit", finding.culprit}, {"text", finding.text}});
      if (finding.peer >= 0) findings.back()["peer"] = finding.peer;
      if (finding.culprit < 0) continue;
      page["culprits"].push_back({{"communicator", id},
                                  {"rank", finding.culprit},
                                  {"kind", finding.kind},
                                  {"text", finding.text}});
      if (finding.peer >= 0) page["culprits"].back()["peer"] = finding.peer;
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

void printTrace(std::FILE* to, const MergedTrace& merged) {
  std::uint64_t calls = 0;
  std::int64_t worst = 0;
  bool known = true;
  for (const auto& [number, rank] : merged.ranks) {
    calls += rank.calls;
    worst = std::max(worst, rank.clock_error);
    known &= rank.clock_error >= 0;
  }
  printLine(to, "job " + merged.job + ": " + std::to_string(merged.ranks.size()) + " of " +
                    std::to_string(merged.size) + " ranks, " + std::to_string(calls) +
                    " calls: " + merged.file + " (open it at ui.perfetto.dev)");
  char clocks[80] = "the machines' clocks were not compared: times of different ones may differ";
  if (known)
    std::snprintf(clocks, sizeof(clocks), "the ranks' clocks agree within %.1f us",
                  static_cast<double>(worst) * 1e-3);
  printLine(to, clocks);
  for (int rank = 0; rank < merged.size; ++rank) {
    const auto found = merged.ranks.find(rank);
    const std::string name = "rank " + std::to_string(rank);
    if (found == merged.ranks.end()) printLine(to, name + " has no trace");
    else if (!found->second.ended) printLine(to, name + " did not end its trace: it died, or runs");
    else if (found->second.left_out > 0)
      printLine(to, name + " lacks " + std::to_string(found->second.left_out) + " calls");
  }
  for (const auto& [file, why] : merged.refused) printLine(to, "refused: " + file + ": " + why);
  for (const auto& [job, files] : merged.others)
    printLine(to, "also here: job " + job + ", " + std::to_string(files) + " files; --job " + job +
                      " chooses them");
}

int reportTrace(const ReportConfig& config) {
  const bool taken = detail::sameFile(config.output, "/dev/stdout");
  const MergedTrace merged = mergeTraces(config.folder, config.job, config.output);
  printTrace(taken ? stderr : stdout, merged);
  return merged.whole() ? kSuccess : kFailure;
}

int report(const ReportConfig& config) {
  if (config.trace) return reportTrace(config);
  const Dumps dumps = readDumps(config.folder, config.job);
  if (dumps.communicators.empty() || !config.torch.empty())
    for (const auto& [file, why] : dumps.refused)
      printLine(stderr, "rondo: refused: " + file + ": " + why);
  if (dumps.communicators.empty()) {
    throw Error(ErrorCode::system,
                "no dump of " + (config.job.empty() ? "a job" : "job " + config.job) + " in " +
                    config.folder + ": make them by `rondo dump`, or with RONDO_DUMP");
  }
  if (!config.torch.empty()) {
    const int ranks = writeTorch(dumps, config.torch);
    printLine(std::to_string(ranks) + " files; to read them: torchfrtrace " + config.torch +
              " --prefix rondo_trace_");
    return dumps.damaged ? kFailure : kSuccess;
  }
  const Findings all = judgeAll(dumps);
  config.json ? printJson(dumps, all) : printText(dumps, all);
  const bool waits = std::ranges::any_of(all, [](const auto& one) { return !one.second.empty(); });
  return waits || dumps.damaged ? kFailure : kSuccess;
}

} // namespace

Action addReport(CLI::App& parent, const std::vector<std::string>&) {
  auto config = std::make_shared<ReportConfig>();
  CLI::App* app =
      parent.add_subcommand("report", "Show from dumps which rank waits for which, and why");
  app->add_option("folder", config->folder, "Folder with the dumps of all ranks")->required();
  CLI::Option* json = app->add_flag("--json", config->json, "Print JSON");
  CLI::Option* trace =
      app->add_flag("--trace", config->trace, "Merge the ranks' traces (RONDO_TRACE) into one file")
          ->excludes(json);
  app->add_option("-o,--output", config->output, "The merged trace. Default: FOLDER/trace.json")
      ->type_name(kOutputFile)
      ->needs(trace);
  app->add_option("--job", config->job, "The job to report on. Default: the one of most ranks");
  app->add_option("--torch", config->torch,
                  "Write the dumps into this folder for PyTorch's analyser, and print no report")
      ->excludes(json)
      ->excludes(trace);
  app->footer(
      "Prints for each communicator which rank is in which call, and names the culprit: a rank\n"
      "for which others wait, because it never entered their call, left, is stopped, has no\n"
      "dump, makes a different call, is late in each call, or has a slow link. Dumps come from\n"
      "`rondo dump`, or from the ranks themselves if RONDO_DUMP names a folder. A file that is\n"
      "broken or of another job is refused by name. The newest dump of each rank counts. Times\n"
      "are wrong by as much as the machines' clocks differ. JSON dumps of PyTorch's flight\n"
      "recorder, whose names end with the rank, are read too.\n"
      "With --trace it merges traces instead, for ui.perfetto.dev, and says how well the ranks'\n"
      "clocks agree, and what is missing.\n"
      "Exit status: 0: no rank waits for long, or the trace is whole; 1: something is wrong, or a\n"
      "file is broken.\n\n"
      "Examples:\n"
      "  rondo dump all -o dumps && rondo report dumps\n"
      "  RONDO_DUMP=dumps rondo run -p 4 ./program; rondo report dumps\n"
      "  RONDO_TRACE=traces rondo run -p 4 ./program; rondo report --trace traces\n");
  return [config] { return report(*config); };
}

} // namespace rondo::tools
