// Each benchmark writes its rules to a file in a folder beside the output, which is removed at the
// end.
#include "tools/tune_rules.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "base/read_file.h"
#include "planner/decide.h"
#include "planner/rules_file.h"
#include "rondo/error.h"
#include "rondo/rendezvous.h"
#include "tools/bench/json.h"
#include "tools/bench/rules.h"
#include "tools/command.h"
#include "tools/parse.h"
#include "tools/spawn.h"

namespace rondo::tools {

namespace {

/// A new folder, removed with its files at the end.
class PartsFolder {
 public:
  explicit PartsFolder(const std::string& output) : path_(output + ".XXXXXX") {
    if (!mkdtemp(path_.data()))
      throw Error(ErrorCode::system,
                  "--rules: cannot make a folder beside '" + output + "': " + std::strerror(errno));
  }
  ~PartsFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PartsFolder(const PartsFolder&) = delete;
  PartsFolder& operator=(const PartsFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Starts the benchmark of a collective, without its tables. Returns the exit status.
int bench(const RulesConfig& config, Collective collective, int ranks, const std::string& part) {
  SpawnOptions spawn = ownRanks(
      ranks, {"bench", std::string(name(collective)), "--transport=" + config.transport,
              "--minbytes=8", "--maxbytes=" + std::to_string(config.max_bytes), "--stepfactor=4",
              "--check=0", "--average=3", // the slowest rank decides how long a call takes
              "--rules=" + part});
  const char* const quietly[] = {"/bin/sh", "-c", "exec \"$0\" \"$@\" > /dev/null"};
  spawn.command.insert(spawn.command.begin(), std::begin(quietly), std::end(quietly));
  return spawnRanks(spawn);
}

std::string contentOf(const std::string& path) {
  auto text = base::readFile(path);
  if (!text)
    throw Error(ErrorCode::system, "--rules: cannot read '" + path + "': " + std::strerror(errno));
  return std::move(*text);
}

} // namespace

std::string joinedRules(const std::vector<std::string>& files) {
  std::string joined, columns;
  for (const std::string& file : files) {
    bool named = false; // the columns
    for (std::size_t at = 0; at < file.size();) {
      const std::size_t end = std::min(file.find('\n', at), file.size() - 1) + 1;
      const std::string line = file.substr(at, end - at);
      at = end;
      const bool names = !named && !line.starts_with('#');
      named = named || names;
      if (!names || columns.empty()) joined += line;
      if (names) columns = line;
    }
  }
  return joined;
}

int tuneRules(const RulesConfig& config) {
  if (!Rendezvous::detectLauncher().launcher.empty())
    throw Error(ErrorCode::invalid_argument,
                "--rules starts the ranks itself; under a launcher use `rondo bench --rules`");
  requireNewRules(config.output);
  const PartsFolder folder(config.output);
  std::vector<std::string> parts;
  for (const int ranks : config.ranks) {
    for (const Collective collective : planner::kDecided) {
      const std::string part =
          folder.file(std::string(name(collective)) + "-" + std::to_string(ranks));
      if (const int status = bench(config, collective, ranks, part); status != kSuccess)
        return status;
      parts.push_back(contentOf(part));
      const std::size_t rules = planner::RulesFile::parse(parts.back(), part).lines().size();
      std::printf("%-14s %2d ranks: %zu rule%s\n", std::string(name(collective)).c_str(), ranks,
                  rules, rules == 1 ? "" : "s");
      std::fflush(stdout);
    }
  }
  writeFile(config.output, joinedRules(parts));
  std::printf("\nwritten to %s; use it by RONDO_RULES_FILE\n", config.output.c_str());
  return kSuccess;
}

} // namespace rondo::tools
