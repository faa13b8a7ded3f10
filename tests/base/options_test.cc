// Proves: every variable sets its field; RONDO names win over NCCL's; errors of wrong values name
// the variable and the valid values; misspelt variables are reported; and the help is complete.
#include "rondo/options.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "base/log.h"
#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using std::chrono::milliseconds;

using Values = std::map<std::string, std::string>;

/// While it lives, the environment has the given variables and no other RONDO_ or NCCL_ variable.
class Environment {
 public:
  explicit Environment(const Values& values) {
    for (char** item = environ; *item != nullptr; ++item) {
      const std::string text = *item;
      const std::string name = text.substr(0, text.find('='));
      if (name.rfind("RONDO_", 0) == 0 || name.rfind("NCCL_", 0) == 0) {
        saved_[name] = text.substr(name.size() + 1);
      }
    }
    for (const auto& [name, value] : saved_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : values) {
      ::setenv(name.c_str(), value.c_str(), 1);
      set_.push_back(name);
    }
  }
  ~Environment() {
    for (const auto& name : set_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : saved_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  Values saved_;
  std::vector<std::string> set_;
};

/// All fields as text, so that a variable that changes another field is noticed.
std::string dump(const Options& o) {
  std::ostringstream out;
  out << o.algorithm << '|' << o.rules_file << '|' << o.planner << '|' << o.profile << '|'
      << o.transports << '|' << o.deterministic << '|' << o.checksum << '|' << o.check_reductions
      << '|' << o.timeout.count() << '|' << o.init_timeout.count() << '|' << o.heartbeat.count()
      << '|' << o.patient << '|' << o.channel_bytes << '|' << o.channel_depth << '|' << o.threads
      << '|' << o.device << '|' << o.node << '|' << o.bind << '|' << o.socket_interface << '|'
      << o.socket_family << '|' << o.tcp_sockets << '|' << o.tcp_congestion << '|'
      << o.ucx_transports << '|' << o.ucx_devices << '|' << o.comm_id << '|' << o.secret_file << '|'
      << o.tls << '|' << static_cast<int>(o.log_level) << '|' << o.log_file << ' ' << o.dump_folder
      << ' ' << o.trace_folder;
  return out.str();
}

std::string read(const Values& values) {
  const Environment environment(values);
  return dump(Options::fromEnvironment());
}

template <class Change>
std::string defaultsBut(Change change) {
  Options options;
  change(options);
  return dump(options);
}

struct Case {
  std::string variable, alias, value;
  void (*change)(Options&);
};

const Case kCases[] = {
    {"RONDO_ALGO", "NCCL_ALGO", "?ring;allreduce:^tree",
     [](Options& o) { o.algorithm = "?ring;allreduce:^tree"; }},
    {"RONDO_RULES_FILE", "", "/a/r.csv", [](Options& o) { o.rules_file = "/a/r.csv"; }},
    {"RONDO_PLANNER", "", "model", [](Options& o) { o.planner = "model"; }},
    {"RONDO_PROFILE", "", "/a/p.json", [](Options& o) { o.profile = "/a/p.json"; }},
    {"RONDO_TRANSPORT", "", "shm,tcp", [](Options& o) { o.transports = "shm,tcp"; }},
    {"RONDO_SHM_DISABLE", "NCCL_SHM_DISABLE", "1", [](Options& o) { o.transports = "^shm"; }},
    {"RONDO_DETERMINISTIC", "", "1", [](Options& o) { o.deterministic = true; }},
    {"RONDO_CHECKSUM", "", "1", [](Options& o) { o.checksum = true; }},
    {"RONDO_CHECK_REDUCTIONS", "", "1", [](Options& o) { o.check_reductions = true; }},
    {"RONDO_TIMEOUT", "", "2.5", [](Options& o) { o.timeout = milliseconds(2500); }},
    {"RONDO_INIT_TIMEOUT", "", "3", [](Options& o) { o.init_timeout = milliseconds(3000); }},
    {"RONDO_HEARTBEAT", "", "0.25", [](Options& o) { o.heartbeat = milliseconds(250); }},
    {"RONDO_PATIENT", "", "1", [](Options& o) { o.patient = true; }},
    {"RONDO_BUFFSIZE", "NCCL_BUFFSIZE", "64K", [](Options& o) { o.channel_bytes = 65536; }},
    {"RONDO_DEPTH", "", "64", [](Options& o) { o.channel_depth = 64; }},
    {"RONDO_THREADS", "", "16", [](Options& o) { o.threads = 16; }},
    {"RONDO_DEVICE", "", "3", [](Options& o) { o.device = 3; }},
    {"RONDO_BIND", "", "0,2-3", [](Options& o) { o.bind = "0,2-3"; }},
    {"RONDO_NODE", "NCCL_HOSTID", "rack 3/blade 7", [](Options& o) { o.node = "rack 3/blade 7"; }},
    {"RONDO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "^docker,lo",
     [](Options& o) { o.socket_interface = "^docker,lo"; }},
    {"RONDO_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", "AF_INET6",
     [](Options& o) { o.socket_family = "AF_INET6"; }},
    {"RONDO_TCP_SOCKETS", "", "16", [](Options& o) { o.tcp_sockets = 16; }},
    {"RONDO_TCP_CONGESTION", "", "cubic", [](Options& o) { o.tcp_congestion = "cubic"; }},
    {"RONDO_UCX_TLS", "", "^tcp", [](Options& o) { o.ucx_transports = "^tcp"; }},
    {"RONDO_UCX_NET_DEVICES", "", "mlx5_0:1", [](Options& o) { o.ucx_devices = "mlx5_0:1"; }},
    {"RONDO_COMM_ID", "NCCL_COMM_ID", "[::1]:99", [](Options& o) { o.comm_id = "[::1]:99"; }},
    {"RONDO_SECRET_FILE", "", "/a/b", [](Options& o) { o.secret_file = "/a/b"; }},
    {"RONDO_TLS", "", "1", [](Options& o) { o.tls = true; }},
    {"RONDO_DEBUG", "NCCL_DEBUG", "INFO", [](Options& o) { o.log_level = LogLevel::info; }},
    {"RONDO_DEBUG_FILE", "NCCL_DEBUG_FILE", "/dev/null",
     [](Options& o) { o.log_file = "/dev/null"; }},
    {"RONDO_DUMP", "", "dumps", [](Options& o) { o.dump_folder = "dumps"; }},
    {"RONDO_TRACE", "", "traces", [](Options& o) { o.trace_folder = "traces"; }},
};

/// Text of the error; fails the test if there is none.
std::string refusal(const std::string& variable, const std::string& value) {
  const Environment environment(Values{{variable, value}});
  try {
    Options::fromEnvironment();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  FAIL(variable << "=" << value << " was taken");
  return {};
}

} // namespace

TEST_CASE("an empty environment gives the defaults") { CHECK(read({}) == dump(Options{})); }

TEST_CASE("every variable, and its alias, sets its field and no other") {
  for (const Case& c : kCases) {
    CAPTURE(c.variable);
    const std::string wanted = defaultsBut(c.change);
    CHECK(wanted != dump(Options{}));
    CHECK(read({{c.variable, c.value}}) == wanted);
    if (!c.alias.empty()) {
      const std::string value = c.value.starts_with('?') ? c.value.substr(1) : c.value;
      CHECK(read({{c.alias, value}}) == wanted);
      // Set but empty: the default applies, and the alias is not read.
      CHECK(read({{c.variable, ""}, {c.alias, c.value}}) == dump(Options{}));
    }
    CHECK(read({{c.variable, ""}}) == dump(Options{}));
  }
}

TEST_CASE("the RONDO name wins over the NCCL name, even when that one is wrong") {
  CHECK(read({{"RONDO_BUFFSIZE", "1M"}, {"NCCL_BUFFSIZE", "2M"}}) ==
        defaultsBut([](Options& o) { o.channel_bytes = 1u << 20; }));
  CHECK(read({{"RONDO_BUFFSIZE", "1M"}, {"NCCL_BUFFSIZE", "rubbish"}}) ==
        defaultsBut([](Options& o) { o.channel_bytes = 1u << 20; }));
  CHECK(read({{"RONDO_SHM_DISABLE", "0"}, {"NCCL_SHM_DISABLE", "1"}}) == dump(Options{}));
}

TEST_CASE("RONDO_SHM_DISABLE removes shm from the allowed transports") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "^shm"}, {"shm,tcp", "tcp"}, {"tcp", "tcp"}, {"^tcp", "^tcp,shm"}, {"^shm", "^shm"}};
  for (const auto& [before, after] : cases) {
    CAPTURE(before);
    const Environment environment(Values{{"RONDO_TRANSPORT", before}, {"RONDO_SHM_DISABLE", "1"}});
    CHECK(Options::fromEnvironment().transports == after);
  }
  const Environment environment(Values{{"RONDO_TRANSPORT", "shm"}, {"RONDO_SHM_DISABLE", "1"}});
  CHECK_THROWS_AS(Options::fromEnvironment(), Error);
}

TEST_CASE("validate() accepts the same values as the environment") {
  const auto refusedAs = [](const std::function<void(Options&)>& change) {
    Options options;
    change(options);
    try {
      options.validate();
    } catch (const Error& error) {
      return error.code() == ErrorCode::invalid_argument ? std::string(error.what()) : "";
    }
    return std::string();
  };
  CHECK(refusedAs([](Options&) {}).empty());
  CHECK(refusedAs([](Options& o) {
          o.transports = "^shm";
          o.timeout = o.init_timeout = Options::kLongestTimeout;
          o.heartbeat = Options::kLongestHeartbeat;
          o.channel_bytes = 12'345;
          o.socket_family = "AF_INET6";
          o.log_level = LogLevel::none;
        }).empty());
  for (const milliseconds wrong :
       {milliseconds::max(), milliseconds::min(), milliseconds(0), milliseconds(-5),
        milliseconds(-1000), Options::kLongestTimeout + milliseconds(1)}) {
    CAPTURE(wrong.count());
    CHECK(refusedAs([&](Options& o) { o.timeout = wrong; }).find("RONDO_TIMEOUT") < 100);
    CHECK(refusedAs([&](Options& o) { o.init_timeout = wrong; }).find("RONDO_INIT_TIMEOUT") < 100);
    CHECK(refusedAs([&](Options& o) { o.heartbeat = wrong; }).find("RONDO_HEARTBEAT") < 100);
  }
  CHECK(refusedAs([](Options& o) { o.heartbeat = milliseconds(9); }).find("0.01 to 3600") < 100);
  CHECK(refusedAs([](Options& o) { o.threads = 0; }).find("RONDO_THREADS") < 100);
  CHECK(refusedAs([](Options& o) { o.tcp_sockets = 17; }).find("RONDO_TCP_SOCKETS") < 100);
  CHECK(refusedAs([](Options& o) { o.channel_depth = -1; }).find("RONDO_DEPTH") < 100);
  CHECK(refusedAs([](Options& o) { o.socket_family = "inet"; }).find("AF_INET6") < 100);
  CHECK(refusedAs([](Options& o) { o.transports = "shm,,tcp"; }).find("RONDO_TRANSPORT") < 100);
}

TEST_CASE("a wrong value is refused, naming the variable that was read and the valid values") {
  const std::map<std::string, std::vector<std::string>> bad = {
      {"RONDO_ALGO", {std::string(4097, 'a')}},
      {"RONDO_PLANNER", {"oracle", "Model", "rules,model"}},
      {"RONDO_TRANSPORT", {"^", "shm,,tcp"}},
      {"RONDO_SHM_DISABLE", {"2", "maybe"}},
      {"RONDO_DETERMINISTIC", {"2", "01"}},
      {"RONDO_TIMEOUT", {"0", "-1", "abc", "1e400", "99999999999999999999"}},
      {"RONDO_INIT_TIMEOUT", {"0", "-1", "x"}},
      {"RONDO_HEARTBEAT", {"0", "0.009", "3601", "soon"}},
      {"RONDO_BUFFSIZE", {"-1", "64X", "18446744073709551616", "16777216T", "2G"}},
      {"RONDO_DEPTH", {"-1", "65", "1.5", "4294967297"}},
      {"RONDO_DEVICE", {"-2", "gpu", "1024"}},
      {"RONDO_NODE", {std::string(256, 'n')}},
      {"RONDO_BIND", {"cores", "0,,1", "3-1", "-1"}},
      {"RONDO_SOCKET_FAMILY", {"AF_UNIX", "inet", "4"}},
      {"RONDO_TCP_SOCKETS", {"0", "17", "two"}},
      {"RONDO_DEBUG", {"loud", "5"}}};
  for (const auto& [variable, values] : bad) {
    for (const std::string& value : values) {
      CAPTURE(variable, value);
      CHECK(refusal(variable, value).find(variable) != std::string::npos);
    }
  }
  CHECK(refusal("RONDO_SOCKET_FAMILY", "x").find("AF_INET, AF_INET6") != std::string::npos);
  CHECK(refusal("RONDO_PLANNER", "x").find("rules, model, measured") != std::string::npos);
  CHECK(refusal("RONDO_DEBUG", "x").find("none, error, warn, info, trace") != std::string::npos);
  CHECK(refusal("RONDO_DEPTH", "65").find("0 to 64") != std::string::npos);
  CHECK(refusal("RONDO_DETERMINISTIC", "2").find("0, 1") != std::string::npos);
}

TEST_CASE(
    "a value of an NCCL variable without a meaning here is logged once, and the default holds") {
  const std::string path = "/tmp/rondo_options_test." + std::to_string(::getpid());
  const std::pair<const char*, const char*> ignored[] = {
      {"NCCL_SHM_DISABLE", "2"}, {"NCCL_BUFFSIZE", "4 M"},
      {"NCCL_BUFFSIZE", "-1"},   {"NCCL_BUFFSIZE", "2G"},
      {"NCCL_BUFFSIZE", "0xG"},  {"NCCL_SOCKET_FAMILY", "AF_IPX"},
      {"NCCL_DEBUG", "1"},       {"NCCL_DEBUG_FILE", "/nonexistent/log"}};
  base::configureLog(LogLevel::warn, path);
  for (const auto& [variable, value] : ignored) {
    CAPTURE(variable, value);
    CHECK(read({{variable, value}}) == dump(Options{}));
    CHECK(read({{variable, value}}) == dump(Options{}));
  }
  base::configureLog(LogLevel::warn, "");
  std::ifstream file(path);
  std::map<std::string, int> named;
  for (std::string line; std::getline(file, line);)
    for (const auto& [variable, value] : ignored)
      if (line.find(std::string(variable) + "=" + value + " is ignored: ") != std::string::npos)
        ++named[variable];
  ::unlink(path.c_str());
  CHECK(named == std::map<std::string, int>{{"NCCL_SHM_DISABLE", 1},
                                            {"NCCL_BUFFSIZE", 1},
                                            {"NCCL_SOCKET_FAMILY", 1},
                                            {"NCCL_DEBUG", 1},
                                            {"NCCL_DEBUG_FILE", 1}});
}

TEST_CASE("NCCL's own ways to write numbers and lists are accepted") {
  const auto with = [](const char* variable, const char* value) {
    const Environment environment(Values{{variable, value}});
    return Options::fromEnvironment();
  };
  CHECK(with("NCCL_BUFFSIZE", "0x400000").channel_bytes == 4 << 20);
  CHECK(with("NCCL_SOCKET_IFNAME", "eth0,,eth1:4711,").socket_interface == "eth0,eth1");
  CHECK(with("NCCL_SOCKET_IFNAME", "^=docker0").socket_interface == "^=docker0");
  CHECK(with("NCCL_SOCKET_IFNAME", "^").socket_interface.empty());
  const Environment environment(Values{{"RONDO_TRANSPORT", "shm"}, {"NCCL_SHM_DISABLE", "1"}});
  CHECK(Options::fromEnvironment().transports == "shm");
}

TEST_CASE("log levels, with NCCL's words") {
  const std::pair<const char*, LogLevel> cases[] = {
      {"none", LogLevel::none}, {"error", LogLevel::error}, {"WARN", LogLevel::warn},
      {"Info", LogLevel::info}, {"TRACE", LogLevel::trace}, {"VERSION", LogLevel::warn},
      {"Abort", LogLevel::info}};
  for (const auto& [text, level] : cases) {
    const Environment environment(Values{{"NCCL_DEBUG", text}});
    CHECK(Options::fromEnvironment().log_level == level);
  }
}

TEST_CASE("a misspelt variable is reported once, with the nearest name; the launcher's are not") {
  const std::string path = "/tmp/rondo_options_test." + std::to_string(::getpid());
  base::configureLog(LogLevel::warn, path);
  {
    const Environment environment(Values{{"RONDO_TIMEOOT", "3"},
                                         {"RONDO_QQQQQQQQ", "3"},
                                         {"RONDO_RANK", "0"},
                                         {"RONDO_SIZE", "1"},
                                         {"RONDO_RENDEZVOUS_FILE", "/proc/self/fd/3"},
                                         {"RONDO_JOIN", "1"},
                                         {"NCCL_WHATEVER", "1"}});
    CHECK(dump(Options::fromEnvironment()) == dump(Options{}));
    CHECK(dump(Options::fromEnvironment()) == dump(Options{}));
  }
  base::configureLog(LogLevel::warn, "");
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ::unlink(path.c_str());
  REQUIRE(lines.size() == 2);
  int hints = 0;
  for (const std::string& line : lines) {
    CHECK((line.find("RONDO_TIMEOOT") != std::string::npos ||
           line.find("RONDO_QQQQQQQQ") != std::string::npos));
    hints += line.find("did you mean RONDO_TIMEOUT?") != std::string::npos ? 1 : 0;
  }
  CHECK(hints == 1);
}

TEST_CASE("a variable is reported when the log first shows it, once") {
  const std::string path = "/tmp/rondo_options_test." + std::to_string(::getpid());
  const auto lines = [&] {
    std::ifstream file(path);
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  };
  const Environment environment(Values{{"RONDO_SEEN_LATER", "3"}, {"NCCL_SEEN_LATER", "1"}});
  const std::pair<LogLevel, std::size_t> steps[] = {{LogLevel::none, 0},
                                                    {LogLevel::warn, 1}, // RONDO's
                                                    {LogLevel::warn, 1},
                                                    {LogLevel::info, 2}, // NCCL's
                                                    {LogLevel::trace, 2}};
  for (const auto& [level, seen] : steps) {
    base::configureLog(level, path);
    Options::fromEnvironment();
    CHECK(lines() == seen);
  }
  base::configureLog(LogLevel::warn, "");
  ::unlink(path.c_str());
}

TEST_CASE("the help has a line for every variable, with its alias and the true default") {
  const std::vector<OptionHelp> help = optionHelp();
  REQUIRE(help.size() == std::size(kCases));
  std::set<std::string> seen;
  for (const OptionHelp& line : help) {
    CAPTURE(line.variable);
    CHECK(seen.insert(line.variable).second);
    CHECK_FALSE(line.meaning.empty());
    bool found = false;
    for (const Case& c : kCases) found |= c.variable == line.variable && c.alias == line.alias;
    CHECK(found);
    // Parsing the printed default gives the default.
    CHECK(read({{line.variable, line.default_value}}) == dump(Options{}));
  }
}

} // namespace rondo::test
