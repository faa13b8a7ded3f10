// Parses the arguments and runs one command.
#include "tools/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <set>
#include <string_view>
#include <utility>

#include "base/parse.h"
#include "rondo/communicator.h"
#include "rondo/error.h"
#include "tools/command_options.h"
#include "tools/version.h"

namespace rondo::tools {

int statusOf(const std::exception& error) {
  const auto* typed = dynamic_cast<const Error*>(&error);
  return typed != nullptr && typed->code() == ErrorCode::invalid_argument ? kUsage : kError;
}

int reportError(const std::exception& error, int rank) {
  const std::string who = rank < 0 ? "" : "rank " + std::to_string(rank) + ": ";
  const auto* typed = dynamic_cast<const Error*>(&error);
  const std::string code = typed != nullptr ? std::string(name(typed->code())) + ": " : "";
  std::fprintf(stderr, "rondo: %s%s%s\n", who.c_str(), code.c_str(), error.what());
  return statusOf(error);
}

std::string transportsOf(const Communicator& comm) {
  std::set<std::string> names;
  for (int peer = 0; peer < comm.size(); ++peer)
    if (peer != comm.rank() || comm.size() == 1) names.insert(comm.transportTo(peer));
  std::string text;
  for (const std::string& one : names) text += (text.empty() ? "" : ", ") + one;
  return text;
}

namespace {

/// The status, or an error if standard output could not be written: a buffer may have hidden that.
int written(int status) {
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0;
  const std::string reason = failed ? std::string(": ") + std::strerror(errno) : "";
  if (!failed && !std::ferror(stdout) && std::cout) return status;
  return reportError(Error(ErrorCode::system, "cannot write standard output" + reason));
}

/// The command that the first words name: that of the program, of `rondo bench`, or of `rondo
/// simulate train`.
const CLI::App* named(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  const auto all = [](const CLI::App*) { return true; };
  for (const std::string& word : arguments) {
    if (word.starts_with("-")) continue;
    const auto below = command->get_subcommands(all);
    const auto next = std::find_if(below.begin(), below.end(),
                                   [&](const CLI::App* one) { return one->get_name() == word; });
    if (next != below.end()) command = *next;
  }
  return command;
}

/// Why the arguments are refused, if a long option is unknown. (CLI11 would first blame the
/// option's value, which it takes for another argument.) Empty: all are known.
std::string unknownOption(const CLI::App& command, const std::vector<std::string>& arguments) {
  std::vector<std::string_view> known;
  for (const CLI::Option* option : command.get_options())
    known.insert(known.end(), option->get_lnames().begin(), option->get_lnames().end());
  for (const std::string& word : arguments) {
    if (word == "--") break;
    if (!word.starts_with("--")) continue;
    const std::string name = word.substr(2, word.find('=') - 2);
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string near(base::nearest(name, known));
    // An abbreviation, if only one option begins with it.
    const auto begins = [&](std::string_view one) {
      return name.size() > 2 && one.starts_with(name);
    };
    if (near.empty() && std::count_if(known.begin(), known.end(), begins) == 1)
      near = *std::find_if(known.begin(), known.end(), begins);
    return "unknown option --" + name + (near.empty() ? "" : "; did you mean --" + near + "?");
  }
  return "";
}

std::string refusal(const CLI::App& app, const CLI::App& command, const std::string& why) {
  std::string name = command.get_name();
  for (const CLI::App* above = command.get_parent(); above; above = above->get_parent())
    name = above->get_name() + " " + name;
  return (&command == &app ? "" : name + ": ") + why + "\n`" + name +
         " --help` explains the options.\n";
}

void describe(CLI::App& app) {
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("rondo ") + kVersion);
  app.footer(
      "`rondo COMMAND --help` explains a command, `rondo help environment` the variables.\n\n"
      "Examples:\n"
      "  rondo bench allreduce -p 2 -e 16M\n"
      "  rondo plan allreduce --algorithm ring -p 4\n"
      "  rondo simulate allreduce -p 64 --bytes 100M\n"
      "  rondo topo -p 4\n"
      "  rondo run -p 4 ./program\n"
#if RONDO_HAVE_TRAINER
      "  rondo train --model mlp -p 2\n"
#endif
  );
}

} // namespace

int runCommand(int argc, const char* const* argv) {
  CLI::App app("Rondo: collective communication over shared memory and TCP", "rondo");
  describe(app);
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  using Add = Action (*)(CLI::App&, const std::vector<std::string>&);
  std::vector<std::pair<std::string, Action>> commands;
  for (const auto& [word, add] : std::initializer_list<std::pair<const char*, Add>> {
         {"bench", addBench}, {"run", addRun}, {"plan", addPlan}, {"simulate", addSimulate},
             {"tune", addTune}, {"topo", addTopo}, {"doctor", addDoctor}, {"dump", addDump},
             {"report", addReport}, {"watch", addWatch},
#if RONDO_HAVE_TRAINER
             {"train", addTrain},
#endif
         {
           "help", addHelp
         }
       }) {
    commands.emplace_back(word, add(app, arguments));
  }
  // CLI11's own error would not name the unknown command.
  std::vector<std::string_view> words;
  for (const auto& [word, action] : commands) words.push_back(word);
  if (!arguments.empty() && !arguments[0].starts_with('-') &&
      std::ranges::find(words, arguments[0]) == words.end()) {
    return reportError(Error(ErrorCode::invalid_argument,
                             "unknown command '" + arguments[0] + "'; valid: " +
                                 base::join(words, ", ") + suggestion(arguments[0], words)));
  }
  const CLI::App& command = *named(app, arguments);
  // The arguments of `rondo run` contain those of a program.
  if (const std::string why = unknownOption(command, arguments);
      !why.empty() && command.get_name() != "run") {
    std::fputs(refusal(app, command, why).c_str(), stderr);
    return kUsage;
  }
  app.failure_message([&](const CLI::App*, const CLI::Error& error) {
    return refusal(app, command, error.what());
  });
  try {
    app.parse(argc, argv);
    if (const std::string why = refusedValue(command); !why.empty())
      throw CLI::ValidationError(why);
  } catch (const CLI::ParseError& error) {
    return written(app.exit(error) == 0 ? kSuccess : kUsage);
  }
  try {
    for (const auto& [word, action] : commands) {
      if (app.got_subcommand(word)) return written(action());
    }
  } catch (const std::bad_alloc&) {
    return reportError(Error(ErrorCode::system, "memory ran out in `rondo " + arguments[0] +
                                                    "`; fewer ranks or smaller sizes need less"));
  } catch (const std::exception& error) {
    return reportError(error);
  }
  return kUsage;
}

} // namespace rondo::tools
