// Starts processes by posix_spawn, which is safe in programs with threads.
#include "process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "rondo/error.h"

namespace rondo::test {

namespace {

using Clock = std::chrono::steady_clock;

bool launchersOrOurs(const std::string& variable) {
  for (const char* prefix : {"RONDO_", "NCCL_", "OMPI_", "PMI", "SLURM_",
                             "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "MASTER_"})
    if (variable.starts_with(prefix)) return true;
  return false;
}

void demand(bool condition, const char* what) {
  if (!condition) throw Error(ErrorCode::system, std::string(what) + ": " + std::strerror(errno));
}

} // namespace

Process::Process(const Settings& settings) {
  std::array<int, 2> in{}, out{};
  demand(::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0, "pipe");
  const base::UniqueFd child_in(in[0]), child_out(out[1]);
  input_.reset(in[1]);
  output_.reset(out[0]);
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!launchersOrOurs(*variable)) variables.emplace_back(*variable);
  // The first of two equal names counts, so the requested variables come first.
  for (const auto& [name, value] : settings.environment)
    variables.insert(variables.begin(), name + "=" + value);
  std::vector<char*> envp, argv = {const_cast<char*>(settings.program.c_str())};
  for (auto& variable : variables) envp.push_back(variable.data());
  for (const auto& argument : settings.arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  envp.push_back(nullptr);
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, child_in.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, child_out.get(), 1);
  // Duplicated onto itself, so that exec does not close the child's copy.
  if (settings.inherited >= 0)
    ::posix_spawn_file_actions_adddup2(&actions, settings.inherited, settings.inherited);
  const int error = ::posix_spawnp(&pid_.value, settings.program.c_str(), &actions, nullptr,
                                   argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    pid_.value = -1;
    throw Error(ErrorCode::system, settings.program + ": " + std::strerror(error));
  }
}

Process::~Process() {
  if (pid_.value < 0) return;
  ::kill(pid_.value, SIGKILL);
  ::waitpid(pid_.value, nullptr, 0);
}

std::string Process::line(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  for (;;) {
    if (const auto at = read_.find('\n'); at != std::string::npos) {
      std::string found = read_.substr(0, at);
      read_.erase(0, at + 1);
      return found;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd wait{output_.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) return "";
    std::array<char, 4096> chunk;
    const ssize_t count = ::read(output_.get(), chunk.data(), chunk.size());
    if (count <= 0) return "";
    read_.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

void Process::tell(const std::string& text) {
  const std::string whole = text + "\n";
  // Writing to a process that has ended must not kill this one; the test notices the missing
  // output.
  ::signal(SIGPIPE, SIG_IGN);
  [[maybe_unused]] const ssize_t written = ::write(input_.get(), whole.data(), whole.size());
}

void Process::signal(int number) { demand(::kill(pid_.value, number) == 0, "kill"); }

std::optional<int> Process::end(std::chrono::milliseconds limit) {
  const auto latest = Clock::now() + limit;
  while (Clock::now() < latest) {
    int status = 0;
    if (::waitpid(pid_.value, &status, WNOHANG) == pid_.value) {
      pid_.value = -1;
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return std::nullopt;
}

} // namespace rondo::test
