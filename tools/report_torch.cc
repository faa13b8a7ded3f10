// Translates calls to and from entries of PyTorch's flight recorder (version 2.x).
#include "tools/report_torch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "rondo/data_types.h"
#include "rondo/error.h"

namespace rondo::tools {

namespace {

using nlohmann::json;

constexpr const char* kTorchVersion = "2.10";

struct Name {
  const char* ours;
  const char* torch;   ///< as its analyser knows it
  int inputs, outputs; ///< buffers in counts of the call; -1: one count for each rank
};
/// The first one stands for the collectives that PyTorch lacks, such as prefix reductions.
constexpr std::array<Name, 9> kNames = {{{"AllReduce", "all_reduce", 1, 1},
                                         {"Reduce", "reduce", 1, 1},
                                         {"ReduceScatter", "_reduce_scatter_base", -1, 1},
                                         {"Broadcast", "broadcast", 1, 1},
                                         {"Scatter", "scatter", 1, 1},
                                         {"Gather", "gather", 1, 1},
                                         {"AllGather", "_all_gather_base", 1, -1},
                                         {"AllToAll", "all_to_all", -1, -1},
                                         {"Barrier", "barrier", 1, 1}}};

std::string torchType(const std::string& ours) {
  for (const DataType type : kDataTypes)
    if (ours == name(type) && !traits(type).torch.empty()) return std::string(traits(type).torch);
  return ours;
}
std::string ourType(const std::string& torch) {
  for (const DataType type : kDataTypes)
    if (torch == traits(type).torch) return std::string(name(type));
  return torch;
}

/// Writes a value in Python's pickle format, protocol 2.
class Pickle {
 public:
  std::string of(const json& value) {
    text_ = "\x80\x02";
    add(value);
    return std::move(text_) + ".";
  }

 private:
  void add(const json& value) {
    if (value.is_null()) text_ += 'N';
    else if (value.is_boolean()) text_ += value.get<bool>() ? '\x88' : '\x89';
    else if (value.is_number_integer()) addInteger(value.get<std::int64_t>());
    else if (value.is_string()) addString(value.get<std::string>());
    else if (value.is_array()) {
      text_ += "](";
      for (const json& one : value) add(one);
      text_ += 'e';
    } else {
      text_ += "}(";
      for (const auto& [key, one] : value.items()) addString(key), add(one);
      text_ += 'u';
    }
  }
  void addBytes(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> 8 * i & 0xff);
  }
  void addInteger(std::int64_t value) {
    text_ += "\x8a\x08"; // LONG1 of eight bytes
    addBytes(static_cast<std::uint64_t>(value), 8);
  }
  void addString(const std::string& value) {
    text_ += 'X';
    addBytes(value.size(), 4);
    text_ += value;
  }
  std::string text_;
};

/// Which rank of the job a rank of a communicator is: -1 if it is unknown.
class JobRanks {
 public:
  explicit JobRanks(const Dumps& dumps) {
    for (const auto& [id, ranks] : dumps.communicators)
      if (world_.empty() || ranks.begin()->second.size > size_)
        world_ = id, size_ = ranks.begin()->second.size;
    for (const auto& [number, rank] : dumps.communicators.at(world_)) {
      const auto [at, first] = of_process_.try_emplace(rank.process, number);
      if (!first) at->second = -1; // ranks that are threads
    }
  }
  const std::string& world() const { return world_; }
  int of(const RecordedRank& rank) const {
    if (rank.communicator == world_) return rank.rank;
    const auto found = of_process_.find(rank.process);
    return found == of_process_.end() ? -1 : found->second;
  }

 private:
  std::string world_;
  int size_ = 0;
  std::map<std::string, int> of_process_;
};

/// The job's ranks in a communicator; empty if one is unknown.
std::vector<int> membersOf(const RecordedRanks& ranks, const JobRanks& job) {
  const RecordedRank& first = ranks.begin()->second;
  std::vector<int> members;
  if (first.communicator == job.world())
    for (int i = 0; i < first.size; ++i) members.push_back(i);
  else
    for (const auto& [number, rank] : ranks) members.push_back(job.of(rank));
  if (members.size() != static_cast<std::size_t>(first.size) ||
      std::find(members.begin(), members.end(), -1) != members.end())
    return {};
  return members;
}

json buffersOf(const RecordedCall& call, int blocks, int size) {
  const std::uint64_t count = call.count.value_or(0);
  return json::array(
      {json::array({blocks < 0 ? count * static_cast<std::uint64_t>(size) : count})});
}

/// `number`: of the entry in its process.
json entryOf(const RecordedRank& rank, const RecordedCall& call, std::size_t number) {
  std::string name = call.name;
  Name known = kNames.front();
  if (name.ends_with("v")) name.pop_back();
  for (const Name& one : kNames)
    if (name == one.ours) known = one;
  const json types = json::array({torchType(call.type)});
  return {{"record_id", number},
          {"pg_id", 0},
          {"process_group", {rank.communicator, "rondo"}},
          {"collective_seq_id", call.sequence},
          {"p2p_seq_id", 0},
          {"op_id", number},
          // The analyser of PyTorch before 2.15 refuses other libraries.
          {"profiling_name", std::string("nccl:") + known.torch},
          {"time_created_ns", call.created},
          {"duration_ms", nullptr},
          {"input_sizes", buffersOf(call, known.inputs, rank.size)},
          {"input_dtypes", types},
          {"output_sizes", buffersOf(call, known.outputs, rank.size)},
          {"output_dtypes", types},
          {"state", call.completed ? "completed" : "started"},
          {"time_discovered_started_ns", call.created},
          {"time_discovered_completed_ns", call.completed ? json(call.ended) : json()},
          {"retired", call.completed},
          {"timeout_ms", 0},
          {"is_p2p", false},
          {"frames", json::array()}};
}

struct Entry {
  const RecordedRank* rank;
  const RecordedCall* call;
};

/// The entries of a process, in the order of their begin.
json inOrder(std::vector<Entry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.call->created < b.call->created;
  });
  json all = json::array();
  for (const Entry& one : entries) all.push_back(entryOf(*one.rank, *one.call, all.size()));
  return all;
}

/// Number of the first collective that all ranks still have in their record.
std::uint64_t firstOfAll(const RecordedRanks& ranks) {
  std::uint64_t first = 0;
  for (const auto& [number, rank] : ranks) {
    const auto own = std::find_if(rank.calls.begin(), rank.calls.end(),
                                  [](const RecordedCall& call) { return !call.p2p; });
    if (own != rank.calls.end()) first = std::max(first, own->sequence);
  }
  return first;
}

std::uint64_t elementsIn(const json& entry, const char* key) {
  std::uint64_t all = 0;
  for (const json& size : entry.value(key, json::array())) {
    std::uint64_t one = 1;
    for (const json& extent : size) one *= extent.get<std::uint64_t>();
    all += one;
  }
  return all;
}

/// "nccl:all_reduce": our name if there is one, else what follows the colon.
RecordedCall callOf(const json& entry) {
  RecordedCall call;
  call.number = entry.at("record_id").get<std::uint64_t>();
  call.p2p = entry.value("is_p2p", false);
  call.sequence = entry.at(call.p2p ? "p2p_seq_id" : "collective_seq_id").get<std::uint64_t>();
  std::string name = entry.at("profiling_name").get<std::string>();
  name.erase(0, name.rfind(':') + 1);
  if (call.p2p) {
    // "send 0->1", "recv 1<-0"
    const auto number = name.find_last_not_of("0123456789") + 1;
    int peer = -1;
    std::from_chars(name.data() + number, name.data() + name.size(), peer);
    if (peer >= 0) call.peer = peer;
    name = name.starts_with("send") ? "Send" : "Recv";
  }
  call.name = name;
  for (const Name& one : kNames)
    if (name == one.torch) {
      call.name = one.ours;
      break;
    }
  const bool receives = call.name == "Recv" || call.name == "ReduceScatter";
  call.count = elementsIn(entry, receives ? "output_sizes" : "input_sizes");
  if (const auto types = entry.find(receives ? "output_dtypes" : "input_dtypes");
      types != entry.end() && types->is_array() && !types->empty())
    call.type = ourType((*types)[0].get<std::string>());
  if (call.name == "Barrier") call.count.reset(), call.type.clear();
  call.completed = entry.at("state") == "completed" || entry.value("retired", false);
  call.created = entry.at("time_created_ns").get<std::int64_t>();
  if (const auto end = entry.find("time_discovered_completed_ns");
      end != entry.end() && end->is_number())
    call.ended = end->get<std::int64_t>();
  return call;
}

/// The ranks in "[0, 1, 2]".
std::vector<int> ranksIn(const std::string& text) {
  std::vector<int> ranks;
  const json list = json::parse(text, nullptr, false);
  if (list.is_array())
    for (const json& one : list) ranks.push_back(one.get<int>());
  return ranks;
}

/// PyTorch's recorder does not know for whom a call waits: it waits since it began, for any rank.
void addWaits(RecordedRank& rank) {
  for (const RecordedCall& call : rank.calls)
    if (!call.completed && rank.waits.size() < 6)
      rank.waits.push_back({call.number, call.peer.value_or(-1), rank.time - call.created, ""});
}

} // namespace

int writeTorch(const Dumps& dumps, const std::string& folder) {
  const JobRanks job(dumps);
  std::map<int, json> ranks;
  std::map<int, std::vector<Entry>> entries;
  for (const auto& [id, members] : dumps.communicators) {
    const std::vector<int> numbers = membersOf(members, job);
    if (numbers.empty()) continue;
    const std::uint64_t first = firstOfAll(members);
    for (const auto& [number, rank] : members) {
      json& dump = ranks[job.of(rank)];
      dump["pg_config"][id] = {{"name", id}, {"desc", "rondo"}, {"ranks", json(numbers).dump()}};
      for (const RecordedCall& call : rank.calls)
        if (!call.p2p && call.sequence >= first) entries[job.of(rank)].push_back({&rank, &call});
    }
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (auto& [rank, dump] : ranks) {
    dump["version"] = kTorchVersion;
    dump["pg_status"] = json::object();
    dump["entries"] = inOrder(entries[rank]);
    const std::string path = folder + "/rondo_trace_" + std::to_string(rank);
    std::ofstream file(path, std::ios::binary);
    file << Pickle().of(dump);
    if (!file.flush())
      throw Error(ErrorCode::system, "cannot write " + path + ": " + std::strerror(errno));
  }
  return static_cast<int>(ranks.size());
}

ProcessDump readTorch(const std::string& text, const std::string& file, int rank,
                      std::int64_t time) {
  const json page = json::parse(text, nullptr, false);
  if (!page.is_object() || !page.contains("entries") || !page.contains("pg_config"))
    throw std::runtime_error("no dump of PyTorch's flight recorder");
  std::map<std::string, RecordedRank> groups;
  for (const auto& [name, config] : page["pg_config"].items()) {
    const std::vector<int> ranks = ranksIn(config.at("ranks").get<std::string>());
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    if (place == ranks.end()) continue;
    RecordedRank& one = groups[name];
    one.communicator = name;
    one.job = "torch";
    one.transports = "PyTorch: " + config.value("desc", std::string());
    one.size = static_cast<int>(ranks.size());
    one.rank = static_cast<int>(place - ranks.begin());
    one.process = "rank:" + std::to_string(rank);
  }
  for (const json& entry : page["entries"]) {
    const auto found = groups.find(entry.at("process_group").at(0).get<std::string>());
    if (found == groups.end()) continue;
    const RecordedCall call = callOf(entry);
    time = std::max({time, call.created, call.ended});
    if (!call.p2p) found->second.entered = std::max(found->second.entered, call.sequence);
    found->second.calls.push_back(call);
  }
  ProcessDump dump{file, {}};
  for (auto& [name, one] : groups) {
    one.time = time;
    addWaits(one);
    dump.ranks.push_back(std::move(one));
  }
  return dump;
}

} // namespace rondo::tools
