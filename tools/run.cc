// `rondo run`: starts any program as N ranks on this machine.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/command.h"
#include "tools/spawn.h"

namespace rondo::tools {

Action addRun(CLI::App& parent, const std::vector<std::string>&) {
  auto options = std::make_shared<SpawnOptions>();
  CLI::App* app = parent.add_subcommand("run", "Start several ranks of a program");
  app->add_option("-p,-n,--ranks", options->ranks, "Number of ranks to start")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app->add_flag("--tag", options->tag, "Begin each line of a rank's output with its number");
  app->add_option(
         "--restart", options->restarts,
         "Restart ranks that were killed or have failed, at most this many times in all, as "
         "ranks that join (RONDO_JOIN=1), but not after status 2 (wrong arguments) or 130 "
         "(stopped). For `rondo train --elastic` and programs whose ranks can join")
      ->check(CLI::Range(0, 1000000));
  app->add_option("--least", options->least,
                  "When a rank was killed or has failed, let the others go on while at least this "
                  "many are left or have succeeded; 0: end the job")
      ->check(CLI::Range(0, 4096));
  app->add_option(
      "--bind", options->bind,
      "Processors of each rank: core (one core), socket, a list as 0,2,8-11 (one of them "
      "for each rank), or none (any). Default: RONDO_BIND, else none");
  app->add_option("program", options->command, "The program and its arguments")->required();
  app->positionals_at_end();
  app->prefix_command(false);
  app->footer(
      "The ranks find each other by rondo::Rendezvous::environment(). Signals are passed on. If a\n"
      "rank fails, the others have 5 s to end by themselves. Each rank is a process group. When\n"
      "this command ends, it also ends the processes that ranks have started, except those in a\n"
      "session of their own (setsid); it names these. A rank that reads from the terminal gets\n"
      "the terminal, as by a shell's fg.\n"
      "Exit status: 0, or that of the first rank that failed (128 + the signal's number).\n\n"
      "Examples:\n"
      "  rondo run -p 4 ./program --its-option\n"
      "  rondo run -p 2 --tag -- python3 train.py --epochs 3\n");
  return [options] { return spawnRanks(*options); };
}

} // namespace rondo::tools
