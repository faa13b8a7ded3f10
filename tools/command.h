// Declares what all commands share: exit statuses, error lines, and how a command is registered.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rondo {
class Communicator;
}

namespace rondo::tools {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1; ///< the command ran and found an error
inline constexpr int kUsage = 2;   ///< the arguments are invalid
inline constexpr int kError = 3;   ///< the command could not do its work

/// kUsage for Error(invalid_argument), else kError.
int statusOf(const std::exception& error);
/// Prints "rondo: rank 2: peer_dead: ..." on stderr, without the rank if it is -1. Returns
/// statusOf() the error.
int reportError(const std::exception& error, int rank = -1);

/// Names of the transports from this rank to the others, without duplicates: "shm, tcp".
std::string transportsOf(const Communicator& comm);

/// Runs a command after its arguments were parsed; returns the exit status.
using Action = std::function<int()>;

/// Each adds one command. `arguments`: all words after the program's name.
Action addBench(CLI::App& app, const std::vector<std::string>& arguments);
Action addRun(CLI::App& app, const std::vector<std::string>& arguments);
Action addPlan(CLI::App& app, const std::vector<std::string>& arguments);
Action addSimulate(CLI::App& app, const std::vector<std::string>& arguments);
Action addTune(CLI::App& app, const std::vector<std::string>& arguments);
Action addTopo(CLI::App& app, const std::vector<std::string>& arguments);
Action addDump(CLI::App& app, const std::vector<std::string>& arguments);
Action addReport(CLI::App& app, const std::vector<std::string>& arguments);
Action addWatch(CLI::App& app, const std::vector<std::string>& arguments);
Action addDoctor(CLI::App& app, const std::vector<std::string>& arguments);
Action addTrain(CLI::App& app, const std::vector<std::string>& arguments);
Action addHelp(CLI::App& app, const std::vector<std::string>& arguments);

/// Runs the whole program; returns the exit status.
int runCommand(int argc, const char* const* argv);

} // namespace rondo::tools
