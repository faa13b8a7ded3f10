// `rondo help`: prints the help of a command, or the environment variables.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <utility>

#include "rondo/error.h"
#include "rondo/options.h"
#include "tools/command.h"

namespace rondo::tools {

namespace {

void printEnvironment() {
  std::puts("Environment variables that every program with Rondo reads:\n");
  for (const OptionHelp& option : optionHelp()) {
    std::string names = option.variable;
    if (!option.alias.empty()) names += ", " + option.alias;
    const std::string standard = option.default_value.empty() ? "empty" : option.default_value;
    std::printf("%s (default: %s)\n    %s\n", names.c_str(), standard.c_str(),
                option.meaning.c_str());
  }
}

struct OtherVariable {
  const char *names, *meaning;
};
constexpr OtherVariable kOthers[] = {
    {"RONDO_RANK, RONDO_SIZE, RONDO_LOCAL_RANK",
     "rank, number of ranks, rank on this machine: set by `rondo run`, or by a launcher of your "
     "own together with RONDO_COMM_ID"},
    {"RONDO_RENDEZVOUS_FILE, RONDO_JOIN",
     "set by `rondo run --restart`: the file where the ranks are found; 1: join them"},
    {"RONDO_ID_FD", "set by `rondo run`: the descriptor that holds the id of the rendezvous"},
    {"NCCL_COMM_BLOCKING", "read by libnccl.so.2: 0: its calls do not wait, as in NCCL"},
    {"RONDO_MPI_STATS", "1: MPI programs print at their end which collectives Rondo ran"},
    {"RONDO_DATA", "default of `rondo train --data`"},
    {"RONDO_ROOT", "where pip finds Rondo when it builds rondo_torch"},
};

void printOthers() {
  std::puts("\nVariables of launchers, and of single programs:\n");
  for (const OtherVariable& one : kOthers) std::printf("%s\n    %s\n", one.names, one.meaning);
}

} // namespace

Action addHelp(CLI::App& parent, const std::vector<std::string>&) {
  auto topic = std::make_shared<std::string>();
  CLI::App* app = parent.add_subcommand("help", "Explain a command, or the environment variables");
  app->add_option("topic", *topic, "A command's name, or 'environment'");
  return [topic, &parent] {
    if (*topic == "environment") {
      printEnvironment();
      printOthers();
      return kSuccess;
    }
    const CLI::App* about = topic->empty() ? &parent : nullptr;
    std::string valid = "environment";
    const auto all = [](const CLI::App*) { return true; };
    for (const CLI::App* command : std::as_const(parent).get_subcommands(all)) {
      valid += ", " + command->get_name();
      if (command->get_name() == *topic) about = command;
    }
    if (about == nullptr) {
      throw Error(ErrorCode::invalid_argument, "no help on '" + *topic + "'; valid: " + valid);
    }
    const std::string before = about == &parent ? "" : parent.get_name();
    std::fputs(about->help(before).c_str(), stdout);
    return kSuccess;
  };
}

} // namespace rondo::tools
