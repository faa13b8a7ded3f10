// Parses the files of a folder, and keeps the newest dump of each rank.
#include "tools/report_read.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "rondo/error.h"
#include "tools/report_torch.h"

namespace rondo::tools {

namespace {

using nlohmann::json;

constexpr int kVersion = 2;
constexpr std::uintmax_t kLargestFile = 1 << 30;
constexpr std::size_t kLongestLine = 64 * 1024;
constexpr std::int64_t kMostRanks = 1 << 16, kMost = std::int64_t{1} << 62;

template <class T>
std::optional<T> maybe(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end()) return std::nullopt;
  return found->get<T>();
}

/// An integer from `least` to `most`.
std::int64_t integer(const json& line, const char* key, std::int64_t least, std::int64_t most) {
  const json& value = line.at(key);
  const bool small = !value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMost);
  if (!value.is_number_integer() || !small || value.get<std::int64_t>() < least ||
      value.get<std::int64_t>() > most)
    throw std::runtime_error(std::string("impossible ") + key);
  return value.get<std::int64_t>();
}
std::int64_t natural(const json& line, const char* key) { return integer(line, key, 0, kMost); }
std::uint64_t counter(const json& line, const char* key) {
  return static_cast<std::uint64_t>(natural(line, key));
}
int rankIn(const json& line, const char* key) {
  return static_cast<int>(integer(line, key, -1, kMostRanks));
}

/// `failed`: the communicator has failed, and with it its calls in flight.
RecordedCall callOf(const json& line, bool failed) {
  RecordedCall call;
  call.number = counter(line, "record_id");
  call.p2p = line.at("is_p2p").get<bool>();
  call.sequence = counter(line, call.p2p ? "p2p_seq_id" : "collective_seq_id");
  call.name = line.at("profiling_name").get<std::string>();
  if (call.name.starts_with("rondo:")) call.name.erase(0, 6);
  if (line.contains("count")) call.count = counter(line, "count");
  call.type = maybe<std::string>(line, "dtype").value_or("");
  call.op = maybe<std::string>(line, "op").value_or("");
  call.algorithm = maybe<std::string>(line, "algorithm").value_or("");
  if (line.contains("root")) call.root = rankIn(line, "root");
  if (line.contains("peer")) call.peer = rankIn(line, "peer");
  const auto state = line.at("state").get<std::string>();
  call.completed = state == "completed" || (state == "failed" && !failed);
  call.created = natural(line, "time_created_ns");
  if (line.contains("time_completed_ns")) call.ended = natural(line, "time_completed_ns");
  return call;
}

/// A call that ended before another one was completed was refused: the failure came later.
void markRefused(RecordedRank& rank) {
  std::int64_t completed = 0;
  for (const RecordedCall& call : rank.calls)
    if (call.completed) completed = std::max(completed, call.ended);
  for (RecordedCall& call : rank.calls)
    if (call.ended > 0 && call.ended < completed) call.completed = true;
}

RecordedRank rankOf(const json& line) {
  RecordedRank rank;
  rank.communicator = line.at("communicator").get<std::string>();
  rank.job = line.at("job").get<std::string>();
  rank.transports = line.at("transports").get<std::string>();
  rank.size = static_cast<int>(integer(line, "size", 1, kMostRanks));
  rank.rank = static_cast<int>(integer(line, "rank", 0, rank.size - 1));
  rank.open = line.at("open").get<bool>();
  rank.entered = counter(line, "entered");
  if (const auto failure = line.find("failure"); failure != line.end())
    rank.failure = {failure->at("code").get<std::string>(), failure->at("text").get<std::string>(),
                    rankIn(*failure, "culprit"), rankIn(*failure, "culprit_in_job"),
                    natural(*failure, "failed_ns")};
  for (const json& wait : line.at("waits"))
    rank.waits.push_back({counter(wait, "record_id"), rankIn(wait, "peer"),
                          natural(wait, "idle_ns"), wait.at("text").get<std::string>()});
  if (const auto totals = line.find("totals"); totals != line.end())
    for (const json& total : *totals)
      rank.totals[total.at("collective").get<std::string>()] = {counter(total, "calls"),
                                                                counter(total, "bytes")};
  return rank;
}

/// The links in the header of a dump.
std::vector<RecordedLink> linksOf(const json& header) {
  std::vector<RecordedLink> links;
  if (!header.contains("links")) return links;
  const auto time = static_cast<double>(integer(header, "links_ns", 1, kMost));
  for (const json& line : header.at("links")) {
    const double busy = std::min(static_cast<double>(natural(line, "busy_ns")), time);
    links.push_back({.from = line.at("from").get<std::string>(),
                     .to = line.at("to").get<std::string>(),
                     .bytes = counter(line, "bytes"),
                     .total = counter(line, "total"),
                     .busy = busy / time,
                     .seconds = busy * 1e-9,
                     .average = static_cast<double>(natural(line, "average")),
                     .segment_rate = line.contains("segment_rate")
                                         ? static_cast<double>(natural(line, "segment_rate"))
                                         : 0,
                     .queued = line.at("queued").get<bool>()});
  }
  return links;
}

/// Throws std::exception that says why the file is refused.
std::ifstream openDump(const std::filesystem::path& path) {
  if (std::filesystem::file_size(path) > kLargestFile) throw std::runtime_error("too large");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::strerror(errno));
  return file;
}

/// Reads the dumps in a file. Throws std::exception that says why it is refused.
std::vector<ProcessDump> readFile(const std::filesystem::path& path) {
  std::ifstream file = openDump(path);
  std::vector<ProcessDump> dumps;
  do dumps.push_back(readDump(file, path.filename().string()));
  while (file.peek() != std::ifstream::traits_type::eof());
  return dumps;
}

/// As a word of a shell.
std::string shellWord(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

/// A file of PyTorch's flight recorder. Its name ends with the rank.
std::vector<ProcessDump> readTorchFile(const std::filesystem::path& path) {
  const std::string stem = path.stem().string();
  const std::size_t number = stem.find_last_not_of("0123456789") + 1;
  std::ifstream file = openDump(path);
  if (file.peek() == 0x80)
    throw std::runtime_error(
        "a pickle of PyTorch's flight recorder; convert it by: python3 -c 'import json, pickle, "
        "sys; "
        "json.dump(pickle.load(open(sys.argv[1], \"rb\")), open(sys.argv[1] + \".json\", "
        "\"w\"))' " +
        shellWord(path.string()));
  if (number == stem.size() || stem.size() - number > 6)
    throw std::runtime_error("no dump; one of PyTorch would have a name that ends with its rank");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  struct stat info {};
  ::stat(path.c_str(), &info);
  return {readTorch(text, path.filename().string(), std::stoi(stem.substr(number)),
                    std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec)};
}

/// Whether a report reads this file: dumps, and what looks like one of PyTorch's.
bool isDump(const std::filesystem::path& path) {
  const std::string end = path.extension().string(), name = path.filename().string();
  return end == ".jsonl" || end == ".json" ||
         (end.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0);
}

/// The job of the most ranks; of several the one with the newest dump.
std::string largestJob(const std::vector<ProcessDump>& dumps) {
  struct Size {
    std::size_t ranks = 0;
    std::int64_t newest = 0;
    auto operator<=>(const Size&) const = default;
  };
  std::map<std::string, Size> jobs;
  for (const ProcessDump& dump : dumps)
    for (const RecordedRank& rank : dump.ranks) {
      ++jobs[rank.job].ranks;
      jobs[rank.job].newest = std::max(jobs[rank.job].newest, rank.time);
    }
  const auto largest = std::max_element(jobs.begin(), jobs.end(),
                                        [](auto& a, auto& b) { return a.second < b.second; });
  return largest == jobs.end() ? "" : largest->first;
}

/// Whether `later` replaces an earlier dump of the same rank. After a failure ranks leave, and what
/// they did before is worth more than that.
bool replaces(const RecordedRank& later, const RecordedRank& earlier) {
  if (later.time < earlier.time) return false;
  return later.open || !earlier.open || !earlier.failure;
}

} // namespace

std::string RecordedCall::text() const {
  std::string text = name + " #" + std::to_string(sequence);
  std::string what;
  if (!op.empty()) what += op + " of ";
  if (count) what += std::to_string(*count) + " ";
  what += type;
  if (root) what += ", root " + std::to_string(*root);
  if (!what.empty()) text += " (" + what + ")";
  if (peer) text += (name == "Send" ? " to rank " : " from rank ") + std::to_string(*peer);
  return text;
}

std::string RecordedCall::difference(const RecordedCall& other) const {
  if (name != other.name) return name + " instead of " + other.name;
  std::string all;
  const auto add = [&all](const std::string& what, const std::string& mine,
                          const std::string& theirs) {
    if (mine == theirs) return;
    all += (all.empty() ? "" : ", ") + what + " " + mine + " instead of " + theirs;
  };
  const auto digits = [](const auto& value) { return value ? std::to_string(*value) : "none"; };
  add("count", digits(count), digits(other.count));
  add("type", type, other.type);
  add("operator", op, other.op);
  add("root", digits(root), digits(other.root));
  return all;
}

ProcessDump readDump(std::istream& stream, const std::string& file) {
  ProcessDump dump{file, {}};
  std::vector<RecordedLink> links;
  std::string text, process, links_error;
  char state = '?';
  std::int64_t time = 0;
  std::uint64_t lines = 0, began = 0;
  bool ended = false;
  for (; !ended && std::getline(stream, text); ++lines) {
    if (text.size() > kLongestLine)
      throw std::runtime_error("line " + std::to_string(lines + 1) + " is longer than 64 KiB");
    const json line = json::parse(text, nullptr, false);
    if (lines == 0) {
      if (!line.is_object() || !line.contains("rondo_dump")) throw std::runtime_error("no dump");
      if (const std::int64_t version = natural(line, "rondo_dump"); version != kVersion)
        throw std::runtime_error("a dump of version " + std::to_string(version) +
                                 "; this command reads " + std::to_string(kVersion));
      process = line.at("host").get<std::string>() + ":" + std::to_string(natural(line, "pid"));
      state = (line.at("state").get<std::string>() + "?")[0];
      time = natural(line, "time_ns");
      if (line.contains("began_ns")) began = counter(line, "began_ns");
      links = linksOf(line);
      links_error = maybe<std::string>(line, "links_error").value_or("");
      continue;
    }
    if (line.is_discarded() || !line.is_object())
      throw std::runtime_error("truncated or damaged in line " + std::to_string(lines + 1));
    if (line.contains("end")) {
      ended = line.at("lines") == lines + 1;
      if (!ended) throw std::runtime_error("damaged: lines are missing");
    } else if (line.contains("communicator")) {
      RecordedRank& rank = dump.ranks.emplace_back(rankOf(line));
      rank.process = process;
      rank.began = began;
      rank.stopped = state == 'T' || state == 't';
      rank.ended = state == 'X';
      rank.time = time;
      rank.links = links;
      rank.links_error = links_error;
    } else if (!dump.ranks.empty()) {
      RecordedRank& rank = dump.ranks.back();
      rank.calls.push_back(callOf(line, rank.failure.has_value()));
    }
  }
  if (lines == 0) throw std::runtime_error("empty");
  if (!ended) throw std::runtime_error("truncated: its end is missing");
  for (RecordedRank& rank : dump.ranks) markRefused(rank);
  return dump;
}

Dumps dumpsOf(std::vector<ProcessDump> dumps, const std::string& job) {
  Dumps all;
  all.job = job.empty() ? largestJob(dumps) : job;
  for (ProcessDump& dump : dumps) {
    bool ours = false;
    for (RecordedRank& rank : dump.ranks) {
      if (rank.job != all.job) continue;
      ours = true;
      if (!rank.links_error.empty() && rank.transports.find("tcp") != std::string::npos)
        all.warnings.insert("links are not measured: " + rank.links_error);
      auto& known = all.communicators[rank.communicator];
      const auto found = known.find(rank.rank);
      if (found == known.end() || replaces(rank, found->second)) known[rank.rank] = std::move(rank);
    }
    all.files += ours;
    if (!ours)
      all.refused.push_back(
          {dump.file, dump.ranks.empty()
                          ? "has no communicator"
                          : "of another job, " + dump.ranks[0].job + "; --job chooses"});
  }
  return all;
}

Dumps readDumps(const std::string& folder, const std::string& job) {
  std::vector<Refused> refused;
  std::vector<ProcessDump> dumps;
  std::error_code error, gone; // gone: of a link that leads nowhere
  std::vector<std::filesystem::path> paths;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at(folder, error); at != end; at.increment(error))
    if (at->is_regular_file(gone) && isDump(at->path())) paths.push_back(at->path());
  if (error)
    throw Error(ErrorCode::invalid_argument,
                "cannot read the folder " + folder + ": " + error.message());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    try {
      for (ProcessDump& dump : path.extension() == ".jsonl" ? readFile(path) : readTorchFile(path))
        dumps.push_back(std::move(dump));
    } catch (const nlohmann::json::exception&) {
      refused.push_back({path.filename().string(), "damaged: a field is missing or wrong"});
    } catch (const std::exception& why) {
      refused.push_back({path.filename().string(), why.what()});
    }
  }
  Dumps joined = dumpsOf(std::move(dumps), job);
  // A JSON file with another name may belong to another program.
  joined.damaged =
      std::ranges::any_of(refused, [](const Refused& one) { return one.file.ends_with(".jsonl"); });
  joined.refused.insert(joined.refused.begin(), refused.begin(), refused.end());
  return joined;
}

} // namespace rondo::tools
