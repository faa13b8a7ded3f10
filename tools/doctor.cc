// `rondo doctor`: checks whether a job would run here, and what would make it slow.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rondo/error.h"
#include "rondo/rendezvous.h"
#include "tools/command.h"
#include "tools/command_options.h"
#include "tools/doctor_checks.h"
#include "tools/doctor_job.h"

namespace rondo::tools {

namespace {

struct Result {
  Check check;
  std::optional<Fault> fault;
};

std::vector<Result> runChecks(const DoctorConfig& config) {
  std::vector<Check> checks = systemChecks();
  for (const Check& check : networkChecks()) checks.push_back(check);
  std::vector<Result> results;
  for (const Check& check : checks) {
    try {
      results.push_back({check, check.probe(config)});
    } catch (const std::exception& error) {
      results.push_back({check, Fault{false, std::string("cannot be checked: ") + error.what()}});
    }
  }
  return results;
}

const char* levelOf(const Result& result) {
  if (!result.fault) return "ok";
  return result.fault->fatal ? "error" : "warning";
}

void printText(const std::vector<Result>& results, bool all, bool runs) {
  for (const Result& result : results) {
    if (result.fault)
      std::printf("%s: %s: %s. Remedy: %s\n", levelOf(result), result.check.name,
                  result.fault->text.c_str(), result.check.remedy);
    else if (all) std::printf("ok: %s\n", result.check.name);
  }
  if (all)
    for (const std::string& line : libraryLines()) std::printf("library: %s\n", line.c_str());
  std::printf("%zu checks: a job %s here\n", results.size(), runs ? "runs" : "does not run");
}

void printJson(const std::vector<Result>& results, bool runs) {
  nlohmann::ordered_json page{{"runs", runs}};
  page["checks"] = nlohmann::ordered_json::array();
  for (const Result& result : results) {
    nlohmann::ordered_json line{{"name", result.check.name}, {"level", levelOf(result)}};
    if (result.fault) line["text"] = result.fault->text, line["remedy"] = result.check.remedy;
    page["checks"].push_back(line);
  }
  page["libraries"] = libraryLines();
  std::printf("%s\n",
              page.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

int examine(const DoctorConfig& config) {
  const bool job = Rendezvous::detectLauncher().size > 1;
  if (!job && !config.svg.empty())
    throw Error(ErrorCode::invalid_argument,
                "--svg draws the links between the ranks of a job: start several, as by `rondo run "
                "-p 8 -- rondo doctor --svg links.svg`");
  const std::vector<Result> results = runChecks(config);
  if (job) {
    std::vector<DoctorFinding> found;
    for (const Result& result : results)
      if (result.fault)
        found.push_back(
            {result.fault->fatal, result.check.name, result.fault->text, result.check.remedy});
    return examineJob(config, found);
  }
  bool runs = true;
  for (const Result& result : results) runs &= !result.fault || !result.fault->fatal;
  config.json ? printJson(results, runs) : printText(results, config.all, runs);
  return runs ? kSuccess : kFailure;
}

} // namespace

Action addDoctor(CLI::App& parent, const std::vector<std::string>&) {
  auto config = std::make_shared<DoctorConfig>();
  CLI::App* app =
      parent.add_subcommand("doctor", "Check whether a job would run here, and what slows it down");
  app->add_option("-p,--ranks", config->ranks, "Ranks that will run on this machine")
      ->check(CLI::Range(1, 4096));
  app->add_flag("--json", config->json, "Print JSON, with all checks");
  app->add_flag("--all", config->all, "Also print what is in order, and versions of libraries");
  app->add_option("--svg", config->svg, "Under a launcher: draw the links of all ranks to a file")
      ->type_name(kOutputFile);
  app->footer(
      "Prints one line for each finding; every line ends with its remedy. An error means that no\n"
      "job can run here. A warning means that jobs run more slowly, or on this machine only.\n"
      "Without findings it prints only the last line. Alone it checks this machine. As the ranks\n"
      "of a launcher it checks their machines, compares their clocks, versions and processor\n"
      "time, and measures the link of every pair on every transport; rank 0 prints. Run it in\n"
      "the container and with the limits of the job.\n"
      "Exit status: 0: a job runs here; 1: it does not.\n\n"
      "Examples:\n"
      "  rondo doctor -p 8\n"
      "  rondo run -p 8 -- rondo doctor --svg links.svg\n"
      "  mpirun -n 16 rondo doctor\n");
  return [config] { return examine(*config); };
}

} // namespace rondo::tools
