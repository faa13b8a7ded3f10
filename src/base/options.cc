// Settings from the environment. One table says all there is to know about each variable.
#include "rondo/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "base/bind_rule.h"
#include "base/log.h"
#include "base/parse.h"
#include "rondo/error.h"

namespace rondo {
namespace {

using std::chrono::milliseconds;

struct Entry {
  std::string_view variable;
  std::string_view alias; ///< empty: none
  std::string_view meaning;
  void (*set)(Options&, const std::string& value, std::string_view what);
  std::string (*show)(const Options&);
  /// Translates a value of the alias into the variable's syntax; null: they are the same.
  std::string (*from_nccl)(const std::string& value) = nullptr;
};

template <std::string Options::*field>
void setText(Options& options, const std::string& value, std::string_view) {
  options.*field = value;
}
template <std::string Options::*field>
std::string showText(const Options& options) {
  return options.*field;
}

void setAlgorithm(Options& options, const std::string& value, std::string_view what) {
  constexpr std::size_t kLongest = 4096; // the ranks can compare no longer list
  if (value.size() > kLongest)
    throw Error(ErrorCode::invalid_argument,
                std::string(what) + ": the list has " + std::to_string(value.size()) +
                    " bytes; it may have at most " + std::to_string(kLongest));
  options.algorithm = value;
}

template <std::string Options::*field>
void setFolder(Options& options, const std::string& value, std::string_view what) {
  if (value.size() > 3072)
    throw Error(ErrorCode::invalid_argument,
                std::string(what) + ": the name of the folder is too long");
  options.*field = value;
}

template <milliseconds Options::*field>
void setTimeout(Options& options, const std::string& value, std::string_view what) {
  options.*field =
      base::parseDuration(value, what, Options::kShortestTimeout, Options::kLongestTimeout);
}
void setHeartbeat(Options& options, const std::string& value, std::string_view what) {
  options.heartbeat =
      base::parseDuration(value, what, Options::kShortestHeartbeat, Options::kLongestHeartbeat);
}
template <milliseconds Options::*field>
std::string showSeconds(const Options& options) {
  return base::formatSeconds(options.*field);
}

template <bool Options::*field>
void setFlag(Options& options, const std::string& value, std::string_view what) {
  options.*field = base::parseFlag(value, what);
}
template <bool Options::*field>
std::string showFlag(const Options& options) {
  return options.*field ? "1" : "0";
}

template <int Options::*field, int lowest, int highest>
void setInteger(Options& options, const std::string& value, std::string_view what) {
  options.*field = static_cast<int>(base::parseInteger(value, what, lowest, highest));
}
template <int Options::*field>
std::string showInteger(const Options& options) {
  return std::to_string(options.*field);
}

/// Removes shm from the transports that RONDO_TRANSPORT allows. In the table that entry is before
/// this one, so it is set already.
void disableShm(Options& options, const std::string& value, std::string_view what) {
  if (!base::parseFlag(value, what)) return;
  auto filter = base::NameFilter::parse(options.transports, "RONDO_TRANSPORT");
  if (!filter.allows("shm")) return;
  if (filter.exclude || filter.names.empty()) {
    filter.exclude = true;
    filter.names.emplace_back("shm");
  } else {
    std::erase(filter.names, "shm");
    if (filter.names.empty()) {
      throw Error(ErrorCode::invalid_argument,
                  std::string(what) + " leaves no transport: RONDO_TRANSPORT allows only shm");
    }
  }
  options.transports = (filter.exclude ? "^" : "") + base::join(filter.names, ",");
}

/// The largest channel of all transports.
constexpr std::uint64_t kMostChannelBytes = std::uint64_t{1} << 30;

/// NCCL reads numbers as C does, so they may be hexadecimal.
std::string bytesFromNccl(const std::string& value) {
  if (value.starts_with("0x") || value.starts_with("0X")) {
    std::uint64_t bytes = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data() + 2, end, bytes, 16);
    if (error == std::errc{} && stop == end) return bytesFromNccl(std::to_string(bytes));
  }
  base::parseBytes(value, "NCCL_BUFFSIZE", 0, kMostChannelBytes);
  return value;
}

/// NCCL skips empty names, and takes the text after a colon for a port.
std::string interfacesFromNccl(const std::string& value) {
  const std::size_t signs = std::min(value.find_first_not_of("^="), value.size());
  std::vector<std::string> names;
  for (std::size_t begin = signs; begin < value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    const std::string name = value.substr(begin, std::min(value.find(':', begin), end) - begin);
    if (!base::trim(name).empty()) names.push_back(name);
    begin = end + 1;
  }
  return names.empty() ? "" : value.substr(0, signs) + base::join(names, ",");
}

std::string logFileFromNccl(const std::string& value) {
  base::tryLogFile(value);
  return value;
}

constexpr Entry kEntries[] = {
    {"RONDO_ALGO", "NCCL_ALGO",
     "algorithms to choose from: \"ring,tree\", or per collective "
     "\"ring;allreduce:tree,ring;broadcast:^chain\" ('^' excludes, '/N' is a parameter, "
     "hierarchical(INSIDE,BETWEEN) names two; with a leading '?', others serve what these cannot); "
     "empty: chosen by size and ranks",
     setAlgorithm, showText<&Options::algorithm>,
     [](const std::string& value) { return "?" + value; }},
    {"RONDO_RULES_FILE", "",
     "rules file: CSV with the algorithms for collectives, sizes and numbers of ranks, where "
     "RONDO_ALGO leaves the choice; empty: none",
     setText<&Options::rules_file>, showText<&Options::rules_file>},
    {"RONDO_PLANNER", "",
     "how algorithms are chosen: rules, model (times predicted from RONDO_PROFILE), or measured "
     "(the first blocking call of a collective and size class times the algorithms); empty: rules",
     [](Options& options, const std::string& value, std::string_view what) {
       if (!value.empty() && value != "rules" && value != "model" && value != "measured")
         throw Error(ErrorCode::invalid_argument, std::string(what) + ": unknown planner " +
                                                      base::quoted(value) +
                                                      "; valid: rules, model, measured");
       options.planner = value;
     },
     showText<&Options::planner>},
    {"RONDO_PROFILE", "",
     "link profile of this machine (rondo tune -o); empty: the one that rondo tune stored",
     setText<&Options::profile>, showText<&Options::profile>},
    {"RONDO_TRANSPORT", "",
     "transports that may be used, e.g. \"shm,tcp\" ('^' in front excludes); empty: all",
     [](Options& options, const std::string& value, std::string_view what) {
       base::NameFilter::parse(value, what);
       options.transports = value;
     },
     showText<&Options::transports>},
    {"RONDO_SHM_DISABLE", "NCCL_SHM_DISABLE", "1 leaves out the shm transport", disableShm,
     [](const Options&) { return std::string("0"); }},
    {"RONDO_DETERMINISTIC", "",
     "1: contributions are reduced in rank order, whatever algorithm, transport or size",
     setFlag<&Options::deterministic>, showFlag<&Options::deterministic>},
    {"RONDO_CHECKSUM", "", "1: each message has a CRC32C, which the receiver compares",
     setFlag<&Options::checksum>, showFlag<&Options::checksum>},
    {"RONDO_CHECK_REDUCTIONS", "",
     "1: the next rank computes one in 1024 of the elements that a rank reduces again",
     setFlag<&Options::check_reductions>, showFlag<&Options::check_reductions>},
    {"RONDO_TIMEOUT", "", "seconds without progress after which a call fails",
     setTimeout<&Options::timeout>, showSeconds<&Options::timeout>},
    {"RONDO_INIT_TIMEOUT", "",
     "seconds for each stage of creating, splitting, shrinking or growing a communicator, and for "
     "each connection",
     setTimeout<&Options::init_timeout>, showSeconds<&Options::init_timeout>},
    {"RONDO_HEARTBEAT", "",
     "seconds; choose more than the network's round-trip time; a process that is silent for three "
     "times as long is called unresponsive",
     setHeartbeat, showSeconds<&Options::heartbeat>},
    {"RONDO_PATIENT", "",
     "1: wait for silent processes; after a rank has died, a call ends when it has made no "
     "progress for 10 s",
     setFlag<&Options::patient>, showFlag<&Options::patient>},
    {"RONDO_BUFFSIZE", "NCCL_BUFFSIZE",
     "bytes of slots per channel (suffixes K, M, G); 0: the transport's default",
     [](Options& options, const std::string& value, std::string_view what) {
       options.channel_bytes = base::parseBytes(value, what, 0, kMostChannelBytes);
     },
     [](const Options& options) { return base::formatBytes(options.channel_bytes); },
     bytesFromNccl},
    {"RONDO_DEPTH", "", "slots per channel, 1 to 64; 0: the transport's default",
     setInteger<&Options::channel_depth, 0, 64>, showInteger<&Options::channel_depth>},
    {"RONDO_THREADS", "", "threads of a rank that reduce and copy large pieces together, 1 to 64",
     setInteger<&Options::threads, 1, 64>, showInteger<&Options::threads>},
    {"RONDO_DEVICE", "", "CUDA device whose memory the buffers are in; -1: host memory",
     setInteger<&Options::device, -1, 1023>, showInteger<&Options::device>},
    {"RONDO_NODE", "NCCL_HOSTID",
     "name of the node that the rank is on, the same for ranks that share it; empty: the machine",
     [](Options& options, const std::string& value, std::string_view what) {
       if (value.size() > Options::kLongestNode)
         throw Error(ErrorCode::invalid_argument, std::string(what) + ": a name of " +
                                                      std::to_string(value.size()) +
                                                      " bytes is too long; valid: up to " +
                                                      std::to_string(Options::kLongestNode));
       options.node = value;
     },
     showText<&Options::node>},
    {"RONDO_BIND", "",
     "bind ranks to: core, socket, or a list of processors (0,2,8-11); none or empty: no binding",
     [](Options& options, const std::string& value, std::string_view what) {
       base::parseBind(value, what);
       options.bind = value;
     },
     showText<&Options::bind>},
    {"RONDO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
     "prefixes of interface names to use, all at the same time (\"eth0,eth1\"; '^' excludes them, "
     "and one is used; '=' asks for exact names); empty: the one that routes to the rendezvous "
     "address",
     setText<&Options::socket_interface>, showText<&Options::socket_interface>, interfacesFromNccl},
    {"RONDO_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", "AF_INET or AF_INET6; empty: either",
     [](Options& options, const std::string& value, std::string_view what) {
       if (!value.empty() && value != "AF_INET" && value != "AF_INET6") {
         throw Error(ErrorCode::invalid_argument, std::string(what) + ": unknown family " +
                                                      base::quoted(value) +
                                                      "; valid: AF_INET, AF_INET6");
       }
       options.socket_family = value;
     },
     showText<&Options::socket_family>},
    {"RONDO_TCP_SOCKETS", "", "sockets per TCP channel and interface, 1 to 16",
     setInteger<&Options::tcp_sockets, 1, 16>, showInteger<&Options::tcp_sockets>},
    {"RONDO_TCP_CONGESTION", "",
     "congestion control of the sockets, e.g. cubic; empty: the system's",
     setText<&Options::tcp_congestion>, showText<&Options::tcp_congestion>},
    {"RONDO_UCX_TLS", "", "UCX's transports for ucx, e.g. \"rc,sm\"; empty: as UCX_TLS says",
     setText<&Options::ucx_transports>, showText<&Options::ucx_transports>},
    {"RONDO_UCX_NET_DEVICES", "",
     "network devices for ucx, e.g. mlx5_0:1; empty: as UCX_NET_DEVICES says",
     setText<&Options::ucx_devices>, showText<&Options::ucx_devices>},
    {"RONDO_COMM_ID", "NCCL_COMM_ID",
     "host:port where rank 0 listens; it comes before a launcher's address, except that of `rondo "
     "run`",
     setText<&Options::comm_id>, showText<&Options::comm_id>},
    {"RONDO_SECRET_FILE", "",
     "file of mode 0600 with the job's secret (32 bytes or 64 hex digits); empty: loopback only",
     setText<&Options::secret_file>, showText<&Options::secret_file>},
    {"RONDO_TLS", "",
     "1: TLS 1.3 on the control plane and the transport tcp; needs the job's secret",
     setFlag<&Options::tls>, showFlag<&Options::tls>},
    {"RONDO_DEBUG", "NCCL_DEBUG", "log level: none, error, warn, info, trace",
     [](Options& options, const std::string& value, std::string_view what) {
       options.log_level = base::parseLogLevel(value, what);
     },
     [](const Options& options) { return std::string(base::name(options.log_level)); }},
    {"RONDO_DEBUG_FILE", "NCCL_DEBUG_FILE", "log file (%h: host, %p: process id); empty: stderr",
     setText<&Options::log_file>, showText<&Options::log_file>, logFileFromNccl},
    {"RONDO_DUMP", "",
     "folder for dumps of the last calls, when a communicator fails and on SIGQUIT; empty: none",
     setFolder<&Options::dump_folder>, showText<&Options::dump_folder>},
    {"RONDO_TRACE", "", "folder for traces of all calls, for ui.perfetto.dev; empty: none",
     setFolder<&Options::trace_folder>, showText<&Options::trace_folder>},
};

/// Variables that are not options of a communicator and are read elsewhere: what `rondo run` passes
/// to its processes, the folder of the trainer's data, and what the build of rondo_torch reads.
constexpr std::string_view kOtherVariables[] = {
    "RONDO_RANK", "RONDO_SIZE", "RONDO_LOCAL_RANK", "RONDO_ID_FD", "RONDO_RENDEZVOUS_FILE",
    "RONDO_JOIN", "RONDO_DATA", "RONDO_MPI_STATS",  "RONDO_ROOT"};

/// Whether this is the first line about the variable, at this level, that this process's log shows.
/// A line that the log level hides does not count, since the level may change later.
bool namedFirst(std::string_view variable, LogLevel level) {
  if (!base::logs(level)) return false;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> named;
  const std::lock_guard lock(mutex);
  return named.emplace(variable).second;
}

/// Programs tuned for NCCL may set variables that select parts of NCCL which Rondo does not have.
void tellOfOthersVariable(std::string_view word) {
  const auto is_alias = [&](const Entry& entry) { return entry.alias == word; };
  if (std::ranges::any_of(kEntries, is_alias) || word == "NCCL_COMM_BLOCKING") return;
  if (namedFirst(word, LogLevel::info))
    base::log(LogLevel::info, word, " has no meaning for Rondo");
}

/// A program must run with the settings that it uses for NCCL: a value that Rondo does not support
/// is logged once and ignored.
void readAlias(Options& options, const Entry& entry) {
  const char* const value = entry.alias.empty() ? nullptr : std::getenv(entry.alias.data());
  if (value == nullptr || *value == '\0') return;
  Options changed = options;
  try {
    entry.set(changed, entry.from_nccl ? entry.from_nccl(value) : value, entry.alias);
    options = std::move(changed);
  } catch (const Error& error) {
    if (namedFirst(entry.alias, LogLevel::warn))
      base::log(LogLevel::warn, entry.alias, "=", value, " is ignored: ", error.what());
  }
}

/// A misspelt variable would otherwise be ignored silently. Each is logged once per process.
void warnOfUnknownVariables() {
  std::vector<std::string_view> known;
  for (const Entry& entry : kEntries) known.push_back(entry.variable);

  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view word = text.substr(0, text.find('='));
    if (word.starts_with("NCCL_")) tellOfOthersVariable(word);
    if (!word.starts_with("RONDO_")) continue;
    auto is_word = [&](std::string_view other) { return other == word; };
    if (std::any_of(known.begin(), known.end(), is_word)) continue;
    if (std::ranges::any_of(kOtherVariables, is_word)) continue;
    if (!namedFirst(word, LogLevel::warn)) continue;
    // The common prefix would make all names similar.
    std::vector<std::string_view> tails;
    for (std::string_view name : known) tails.push_back(name.substr(6));
    for (std::string_view name : kOtherVariables) tails.push_back(name.substr(6));
    const std::string_view near = base::nearest(word.substr(6), tails);
    base::log(LogLevel::warn, "unknown environment variable ", word, " has no effect",
              near.empty() ? "" : "; did you mean RONDO_", near, near.empty() ? "" : "?");
  }
}

} // namespace

Options Options::fromEnvironment() {
  Options options;
  for (const Entry& entry : kEntries) {
    const char* const value = std::getenv(entry.variable.data());
    // Set but empty: the default applies, and the alias is not read.
    if (value == nullptr) readAlias(options, entry);
    else if (*value != '\0') entry.set(options, value, entry.variable);
  }
  warnOfUnknownVariables();
  return options;
}

// The table defines what is valid: every value is printed as in the environment, and parsed again.
void Options::validate() const {
  Options read;
  for (const Entry& entry : kEntries) {
    const std::string value = entry.show(*this);
    if (!value.empty()) entry.set(read, value, "Options: " + std::string(entry.variable));
  }
}

std::vector<OptionHelp> optionHelp() {
  const Options defaults;
  std::vector<OptionHelp> help;
  for (const Entry& entry : kEntries) {
    help.push_back({std::string(entry.variable), std::string(entry.alias), entry.show(defaults),
                    std::string(entry.meaning)});
  }
  return help;
}

} // namespace rondo
