// Reads traces line by line, since they may be large, and believes none of the lines.
#include "tools/report_trace.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <system_error>
#include <utility>

#include "rondo/detail/writable.h"
#include "rondo/error.h"

namespace rondo::tools {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::size_t kLongestLine = 1 << 20;

/// The files of each job and communicator.
std::map<std::string, std::vector<fs::path>> tracesIn(const std::string& folder) {
  static const std::regex kName("rondo-trace-([0-9a-f]{16}-[0-9a-f]{16})-[0-9]+\\.json");
  std::error_code fault;
  const fs::directory_iterator entries(folder, fault);
  if (fault)
    throw Error(ErrorCode::invalid_argument, folder + ": cannot be read: " + fault.message());
  std::map<std::string, std::vector<fs::path>> jobs;
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (std::smatch parts; std::regex_match(name, parts, kName))
      jobs[parts[1]].push_back(entry.path());
  }
  for (auto& [job, files] : jobs) std::sort(files.begin(), files.end());
  return jobs;
}

class Merger {
 public:
  Merger(MergedTrace& into, std::ofstream& to) : into_(into), to_(to) {
    to_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  }

  void add(const fs::path& path) {
    std::ifstream file(path);
    const std::string name = path.filename().string();
    if (!file) return refuse(name, "it cannot be read");
    TracedRank* rank = nullptr;
    std::size_t number = 0;
    bool closed = false;
    for (std::string line; !closed && std::getline(file, line);) {
      if (++number == 1 && line == "[") continue;
      if (number > 1 && line == "]") {
        closed = true;
        continue;
      }
      if (line.ends_with(',')) line.pop_back();
      if (line.size() > kLongestLine)
        return refuse(name, "line " + std::to_string(number) + " is longer than 1 MiB");
      const json event = json::parse(line, nullptr, false);
      if (number == 1 || !event.is_object() || !event.contains("ph"))
        return refuse(name, "line " + std::to_string(number) + " is not an event of a trace");
      try {
        if (const std::string what = event.value("name", ""); what == "rondo trace") {
          if (rank) return refuse(name, "line " + std::to_string(number) + " is a second head");
          rank = begin(event.at("args"), name);
          if (!rank) return;
        } else if (what == "end of rondo trace" && rank) {
          rank->ended = true;
          rank->calls = event.at("args").at("calls").get<std::uint64_t>();
          rank->left_out = event.at("args").at("left_out").get<std::uint64_t>();
        }
      } catch (const json::exception&) {
        return refuse(name, "line " + std::to_string(number) + " misses a value");
      }
      to_ << (std::exchange(first_, false) ? "\n" : ",\n") << line;
    }
    if (!rank) refuse(name, "its head is missing");
  }
  void close() { to_ << "\n]}\n"; }

 private:
  void refuse(const std::string& name, const std::string& why) {
    into_.refused.push_back({name, why});
  }
  /// Null, and refused, if it is not a trace of a new rank.
  TracedRank* begin(const json& facts, const std::string& name) {
    if (facts.at("version") != 1) return refuse(name, "it is of another version"), nullptr;
    if (facts.at("job").get<std::string>() + "-" + facts.at("communicator").get<std::string>() !=
        into_.job)
      return refuse(name, "it is of another job or communicator"), nullptr;
    const json &rank = facts.at("rank"), &size = facts.at("size");
    if (!rank.is_number() || !size.is_number())
      return refuse(name, "its rank or size is no number"), nullptr;
    const bool numbers = rank.is_number_integer() && size.is_number_integer();
    const std::int64_t number = numbers ? rank.get<std::int64_t>() : 0;
    const std::int64_t ranks = numbers ? size.get<std::int64_t>() : 0;
    if (ranks < 1 || ranks > kMostRanks || number < 0 || number >= ranks)
      return refuse(name, "its rank " + rank.dump() + " of " + size.dump() + " is impossible"),
             nullptr;
    const auto [at, fresh] = into_.ranks.try_emplace(static_cast<int>(number));
    if (!fresh) return refuse(name, "its rank has another file"), nullptr;
    into_.size = std::max(into_.size, static_cast<int>(ranks));
    at->second.clock_error = facts.value("clock_error_ns", std::int64_t{-1});
    return &at->second;
  }

  MergedTrace& into_;
  std::ofstream& to_;
  bool first_ = true;
};

/// Writes the traces as one. A regular file gets its name, or changes, only when it is whole.
void writeMerged(const std::vector<fs::path>& traces, MergedTrace& merged) {
  const fs::path file = detail::behindLinks(merged.file);
  std::error_code fault, none;
  const bool replaces = !fs::is_other(file, none);
  const fs::path part = file.string() + (replaces ? ".part" : "");
  if (std::ofstream to(part); to) {
    Merger merger(merged, to);
    for (const fs::path& path : traces) merger.add(path);
    merger.close();
    to.close();
    if (!to) fault = std::make_error_code(std::errc::io_error);
  } else {
    fault = std::error_code(errno, std::generic_category());
  }
  if (!fault && replaces) fs::rename(part, file, fault);
  if (!fault) return;
  if (replaces) fs::remove(part, none);
  throw Error(ErrorCode::system, merged.file + " cannot be written: " + fault.message());
}

} // namespace

bool MergedTrace::whole() const {
  return refused.empty() && static_cast<int>(ranks.size()) == size &&
         std::all_of(ranks.begin(), ranks.end(),
                     [](const auto& one) { return one.second.ended && one.second.left_out == 0; });
}

MergedTrace mergeTraces(const std::string& folder, const std::string& job,
                        const std::string& output) {
  const auto jobs = tracesIn(folder);
  auto found = jobs.end();
  for (auto one = jobs.begin(); one != jobs.end(); ++one) {
    if (!job.empty() && one->first != job && !one->first.starts_with(job + "-")) continue;
    if (found == jobs.end() || one->second.size() > found->second.size()) found = one;
  }
  if (found == jobs.end())
    throw Error(ErrorCode::invalid_argument, folder + " has no trace" +
                                                 (job.empty() ? "" : " of job " + job) +
                                                 ": run the job with RONDO_TRACE=" + folder);
  MergedTrace merged{.job = found->first,
                     .file = output.empty() ? folder + "/trace.json" : output,
                     .ranks = {},
                     .refused = {},
                     .others = {}};
  for (const auto& [other, files] : jobs)
    for (const fs::path& path : files)
      if (detail::sameFile(path, merged.file))
        throw Error(ErrorCode::invalid_argument, "--output " + merged.file +
                                                     " is a rank's trace, " + path.string() +
                                                     ", and would be lost: name another file");
  writeMerged(found->second, merged);
  for (const auto& [other, files] : jobs)
    if (other != merged.job) merged.others[other] = files.size();
  return merged;
}

} // namespace rondo::tools
