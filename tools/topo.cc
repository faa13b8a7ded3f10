// `rondo topo`: prints and draws machines and the places of ranks.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "rondo/rendezvous.h"
#include "tools/bench/json.h"
#include "tools/command.h"
#include "tools/command_options.h"
#include "tools/spawn.h"
#include "tools/topo_job.h"
#include "tools/topo_svg.h"
#include "tools/topo_text.h"
#include "topology/hwloc_file.h"
#include "topology/system.h"

namespace rondo::tools {

namespace {

constexpr int kMostSeats = 1024;

struct TopoConfig {
  std::string file, svg, bind;
  int ranks = 0;
  std::vector<std::string> arguments; ///< as given, for the ranks
};

/// Starts the ranks, which draw the job, unless a launcher started them already.
int drawRanks(const TopoConfig& config) {
  if (!Rendezvous::detectLauncher().launcher.empty()) return drawJob(config.bind, config.svg);
  SpawnOptions spawn = ownRanks(config.ranks, config.arguments);
  spawn.bind = config.bind;
  const char* const set = std::getenv("RONDO_BIND");
  if (config.bind.empty() && (!set || !*set)) spawn.bind = "core";
  return spawnRanks(spawn);
}

int drawMachine(const TopoConfig& config) {
  const auto rule = topology::parseBind(config.bind.empty() ? "core" : config.bind, "--bind");
  std::string missing;
  const topology::Machine machine =
      config.file.empty() ? topology::thisMachine(missing) : topology::readMachine(config.file);
  reportMissing(missing);
  const auto seats = topology::seatsFor(machine, rule, config.ranks);
  std::fputs(machineText(machine).c_str(), stdout);
  if (!seats.empty()) std::fputs(seatsText(machine, seats).c_str(), stdout);
  if (!config.svg.empty()) writeFile(config.svg, machineSvg(machine, seats));
  return kSuccess;
}

} // namespace

Action addTopo(CLI::App& parent, const std::vector<std::string>& arguments) {
  auto config = std::make_shared<TopoConfig>();
  config->arguments = arguments;
  CLI::App* app = parent.add_subcommand("topo", "Show machines, and where ranks run on them");
  app->add_option(
         "--file", config->file,
         "Show a machine file instead of this machine: XML from `lstopo --of xml` of hwloc 1, 2 or "
         "3, or from NCCL (NCCL_TOPO_DUMP_FILE); a file NAME.links next to NAME.xml adds what "
         "hwloc does not know")
      ->type_name(kInputFile);
  app->add_option(
         "-p,--ranks", config->ranks,
         "Start this many ranks, unless a launcher did, and show where they run, how they are "
         "linked and by which transports; with --file: where they would run")
      ->check(CLI::Range(1, kMostSeats));
  app->add_option("--bind", config->bind,
                  "For -p: processors of each rank: core (one core), socket, a list as 0,2,8-11 "
                  "(one of them for each rank), or none (any). Default: RONDO_BIND, else core");
  app->add_option("--svg", config->svg, "Also write a drawing (SVG) to this file")
      ->type_name(kOutputFile);
  app->footer(
      "A links file begins with the line \"rondo-links 1\". Every other line is one of these;\n"
      "'#' begins a comment:\n"
      "  nodes NAME...                a job on several machines like this one\n"
      "  nvlink GPU GPU COUNT         direct links between two GPUs\n"
      "  nvswitch COUNT GPU GPU...    links of each GPU to switches that connect them all\n"
      "  rail NAME CARD               a separate network, and the card that is in it\n\n"
      "Examples:\n"
      "  rondo topo --svg machine.svg\n"
      "  rondo topo -p 4\n"
      "  mpirun -n 8 rondo topo -p 8 --svg job.svg\n"
      "  lstopo --of xml > machine.xml; rondo topo --file machine.xml -p 8\n");
  return [config] {
    if (config->file.empty() && config->ranks > 0) return drawRanks(*config);
    return drawMachine(*config);
  };
}

} // namespace rondo::tools
