// `rondo watch`: shows what the ranks of running jobs do, from outside.
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rondo/error.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/report_text.h"
#include "tools/watch_print.h"
#include "tools/watch_serve.h"
#include "tools/watch_view.h"

namespace rondo::tools {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct WatchOptions : WatchConfig {
  bool json = false, once = false;
  std::string prometheus;
};

std::size_t linesOfTerminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 4)
    return std::numeric_limits<std::size_t>::max();
  return size.ws_row - 1U;
}

/// Shows the view; false if the reader has gone.
bool show(const View& view, const WatchOptions& options) {
  const bool live = !options.once && !options.json && ::isatty(STDOUT_FILENO) != 0;
  std::string text = options.json ? jsonOf(view)
                                  : tableOf(view, live ? linesOfTerminal()
                                                       : std::numeric_limits<std::size_t>::max());
  if (live) text.insert(0, "\x1b[H\x1b[J"); // from the top, and clears what follows
  return std::puts(text.c_str()) >= 0 && std::fflush(stdout) == 0;
}

/// Throws if a process that was named has no record.
void checkProcesses(const WatchOptions& options) {
  for (const std::string& pid : options.processes) {
    checkProcessId(pid);
    const FoundRecord found = findRecord(pid);
    if (!found.memory) throw Error(ErrorCode::system, reasonOf(pid, found.why));
  }
}

/// Two looks, between which rates are measured, and more while a rank or a link may be slow. Links
/// are measured between looks, so that a slow one needs one look more.
int watchOnce(Watch& watch, const WatchOptions& options) {
  watch.awaitCommands();
  View view = watch.look();
  for (int more = 0; more < Watch::kLooksOfSlow && (more == 0 || watch.suspects()); ++more) {
    std::this_thread::sleep_for(Seconds(std::min(options.interval, 1.0)));
    view = watch.look();
  }
  show(view, options);
  if (view.jobs.empty()) return kError;
  return hasFinding(view) ? kFailure : kSuccess;
}

int watchOn(Watch& watch, const WatchOptions& options, PageServer* server) {
  std::vector<std::string> told;
  for (auto next = Clock::now();;) {
    const View view = watch.look();
    // With an endpoint only new troubles are printed, or the JSON objects that were asked for.
    if (!server || options.json) {
      if (!show(view, options)) return kError;
    } else {
      for (const std::string& trouble : view.troubles)
        if (std::find(told.begin(), told.end(), trouble) == told.end())
          std::fprintf(stderr, "warning: %s\n", printable(trouble).c_str());
      told = view.troubles;
    }
    if (server) server->show(metricsOf(view));
    next = std::max(next + std::chrono::duration_cast<Clock::duration>(Seconds(options.interval)),
                    Clock::now());
    std::this_thread::sleep_until(next);
  }
}

int watchCommand(WatchOptions options) {
  if (options.processes == std::vector<std::string>{"all"}) options.processes.clear();
  checkProcesses(options);
  Watch watch(options); // first: its processes must not inherit the listener
  std::unique_ptr<PageServer> server;
  if (!options.prometheus.empty()) {
    server = std::make_unique<PageServer>(options.prometheus);
    std::fprintf(stderr, "metrics: http://%s/metrics\n", server->address().c_str());
  }
  return options.once ? watchOnce(watch, options) : watchOn(watch, options, server.get());
}

} // namespace

Action addWatch(CLI::App& parent, const std::vector<std::string>&) {
  auto options = std::make_shared<WatchOptions>();
  CLI::App* app = parent.add_subcommand("watch", "Show what the ranks of running jobs do now");
  app->add_option("process", options->processes,
                  "A process of the job, or the word all (default: all jobs of this user)");
  app->add_option("--job", options->job, "Only this job, by its number in the table");
  app->add_flag("--once", options->once,
                "Look twice within a second (if a rank or a link seems slow, four times within "
                "three seconds), print, and end");
  app->add_flag("--json", options->json, "Print one JSON object per line and interval");
  app->add_option("--interval", options->interval, "Seconds between looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->check(notNan())
      ->capture_default_str();
  app->add_option("--patience", options->patience,
                  "Seconds without progress in a call until a rank is blamed")
      ->check(CLI::Range(0.1, 86400.0))
      ->check(notNan())
      ->capture_default_str();
  app->add_option("--from", options->commands,
                  "A command that prints the dumps of another host; repeat it for each host")
      ->allow_extra_args(false);
  app->add_option("--prometheus", options->prometheus,
                  "Serve metrics at http://HOST:PORT/metrics; PORT alone: on loopback only");
  app->footer(
      "Reads the memory of the ranks through /proc. They take no part in it: it can neither slow\n"
      "a call nor harm a job, and works while ranks hang or are stopped. They must belong to this\n"
      "user. Ranks on other hosts are seen by the output of a command there, --from.\n"
      "The culprit is the rank for which others wait, not one that waits. An idle\n"
      "communicator is left out if all its processes are active in other communicators. B/s are\n"
      "the bytes of calls as `rondo bench` counts them, busB/s the bus bandwidth of nccl-tests,\n"
      "both over the whole interval, also the time between calls.\n"
      "Exit status of --once: 0: nothing is wrong; 1: something is; 3: there is no job.\n\n"
      "Examples:\n"
      "  rondo watch\n"
      "  rondo watch --once --json\n"
      "  rondo watch --from 'ssh host2 rondo dump all -o - --last 128 --interval 1'\n"
      "  rondo watch --prometheus 9400\n");
  return [options] { return watchCommand(*options); };
}

} // namespace rondo::tools
