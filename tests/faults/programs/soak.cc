// Soak test: starts jobs of ranks as processes, disturbs them, and requires that they go on.
//
//     program_soak --seconds N --seed S [--world FIRST] [--worlds N] [--heartbeat SECONDS]
//
// Worlds (soak_worlds.h) follow each other until the time is over. Each rank (soak_rank.cc) checks
// all results and errors, and that descriptors, threads, mappings and memory do not grow. This
// program sends the signals, and ends everything with stacks of all ranks if nothing happens for
// twice the time that the slowest recovery may take. A world that fails is repeated by its seed and
// number; the signals then arrive in the same rounds, after the same times.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/parse.h"
#include "soak_worlds.h"
#include "support/data_files.h"
#include "support/free_port.h"
#include "support/paths.h"

using namespace rondo::test;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSlower = 3;
#else
constexpr int kSlower = 1;
#endif
/// Longest time of one round: a rank that does not respond, and a call that waits for its deadline.
constexpr auto kBound = std::chrono::seconds(20) * kSlower;

struct Settings {
  std::uint64_t seed = 1;
  int first = 0, worlds = 1'000'000;
  milliseconds time{30'000}, heartbeat{1'000};
};

struct Counts {
  std::map<What, int> rounds;
  int lost = 0;
  milliseconds latest{}; ///< of this program's own wake-ups: how busy the machine was
};

/// One world: its processes, and what is still to be done to them.
class Run {
 public:
  Run(const World& world, const Settings& settings, Counts& counts)
      : world_(world), settings_(settings), counts_(counts) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    lines_ = ends[0];
    const std::string port = std::to_string(freePort());
    for (int rank = 0; rank < world.ranks; ++rank) start(rank, port, ends[1]);
    ::close(ends[1]);
  }
  ~Run() {
    killAll();
    ::close(lines_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Returns whether everything was right.
  bool run() {
    auto heard = Clock::now(), before = heard;
    while (!living_.empty() && failure_.empty()) {
      pollfd poll{lines_, POLLIN, 0};
      if (::poll(&poll, 1, 2) > 0 && read()) heard = Clock::now();
      doWhatIsDue();
      reap();
      const auto now = Clock::now();
      counts_.latest =
          std::max(counts_.latest, std::chrono::duration_cast<milliseconds>(now - before));
      before = now;
      if (now - heard > 2 * kBound) {
        failure_ = "nothing happened for " +
                   std::to_string(std::chrono::seconds(2 * kBound).count()) + " s";
        dumpStacks();
      }
    }
    killAll();
    read();
    if (failure_.empty()) return true;
    std::printf("FAILED %s\n%s\n", world_.text().c_str(), failure_.c_str());
    for (const auto& file : std::filesystem::directory_iterator(folder_.file("")))
      if (file.is_regular_file())
        std::printf("--- %s\n%s", file.path().filename().c_str(), contents(file.path()).c_str());
    std::printf("Repeat with --seed %llu --world %d --worlds 1\n",
                static_cast<unsigned long long>(settings_.seed), world_.index);
    return false;
  }

 private:
  struct Signal {
    Clock::time_point at;
    int rank, number;
  };

  void start(int rank, const std::string& port, int write_end) {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
      const auto set = [](const char* name, const std::string& value) {
        ::setenv(name, value.c_str(), 1);
      };
      set("RONDO_RANK", std::to_string(rank));
      set("RONDO_SIZE", std::to_string(world_.ranks));
      set("RONDO_COMM_ID", "127.0.0.1:" + port);
      set("RONDO_TRANSPORT", world_.transports);
      set("RONDO_DETERMINISTIC", world_.deterministic ? "1" : "0");
      set("RONDO_CHECKSUM", world_.checksum ? "1" : "0");
      set("RONDO_TIMEOUT", std::to_string(15 * kSlower));
      set("RONDO_INIT_TIMEOUT", std::to_string(15 * kSlower));
      set("RONDO_HEARTBEAT", rondo::base::formatSeconds(settings_.heartbeat));
      set("RONDO_DUMP", folder_.file("dumps"));
      if (world_.ranks_per_node > 0)
        set("RONDO_NODE", "node" + std::to_string(rank / world_.ranks_per_node));
      const std::string log = folder_.file("rank" + std::to_string(rank));
      ::dup2(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
      ::dup2(write_end, STDOUT_FILENO);
      ::execl(RONDO_TEST_PROGRAMS "/program_soak_rank", "soak_rank",
              std::to_string(settings_.seed).c_str(), std::to_string(world_.index).c_str(),
              nullptr);
      ::_exit(127);
    }
    pids_.push_back(pid);
    living_.insert(rank);
  }

  bool read() {
    char buffer[65536];
    pollfd poll{lines_, POLLIN, 0};
    if (::poll(&poll, 1, 0) <= 0) return false;
    const ssize_t bytes = ::read(lines_, buffer, sizeof buffer);
    if (bytes <= 0) return false;
    text_.append(buffer, static_cast<std::size_t>(bytes));
    for (std::size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1))
      take(text_.substr(0, end));
    return true;
  }

  void take(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    int rank = -1, number = -1;
    words >> what >> rank;
    last_[rank] = line;
    if (what == "wrong") fail("rank " + line.substr(6));
    if (what == "refused") refused_.insert(rank);
    if (what != "round" && what != "recovered") return;
    words >> number;
    const Round& round = world_.rounds[static_cast<std::size_t>(number)];
    const std::size_t here = ++(what == "round" ? began_ : recovered_)[number];
    if (what == "round" && here == round.members.size()) begin(number, round);
    // All others have shrunk, so a stopped rank has been replaced.
    if (what == "recovered" && round.what == What::freeze &&
        here == round.members.size() - round.lost.size())
      due_.push_back({Clock::now(), round.lost[0], SIGCONT});
  }

  /// All members are in this round.
  void begin(int number, const Round& round) {
    number_ = number;
    ++counts_.rounds[round.what];
    counts_.lost += static_cast<int>(round.lost.size());
    const auto now = Clock::now();
    const auto send = [&](std::size_t i, int rank, int signal) {
      due_.push_back({now + round.delays[i], rank, signal});
    };
    if (round.what == What::pause) {
      send(0, round.actor, SIGSTOP);
      due_.push_back({now + round.delays[0] + round.length, round.actor, SIGCONT});
    }
    if (round.what == What::freeze) {
      // An earlier pause of this rank may have begun late. Its SIGCONT would wake the frozen rank,
      // so freeze it after that.
      auto at = now + round.delays[0];
      for (const Signal& signal : due_)
        if (signal.rank == round.lost[0]) at = std::max(at, signal.at + milliseconds(1));
      due_.push_back({at, round.lost[0], SIGSTOP});
    }
    for (std::size_t i = 0; i < round.lost.size(); ++i)
      if (round.what == What::kill || round.what == What::kill_in_split ||
          round.what == What::kill_in_shrink)
        send(i, round.lost[i], SIGKILL);
  }

  void doWhatIsDue() {
    const auto now = Clock::now();
    for (std::size_t i = 0; i < due_.size();) {
      const Signal signal = due_[i];
      if (signal.at > now) {
        ++i;
        continue;
      }
      due_.erase(due_.begin() + static_cast<std::ptrdiff_t>(i));
      if (!living_.contains(signal.rank)) continue;
      ::kill(pids_[static_cast<std::size_t>(signal.rank)], signal.number);
      if (signal.number == SIGKILL) killed_.insert(signal.rank);
    }
  }

  void reap() {
    for (auto at = living_.begin(); at != living_.end();) {
      int status = 0;
      const int rank = *at;
      if (::waitpid(pids_[static_cast<std::size_t>(rank)], &status, WNOHANG) <= 0) {
        ++at;
        continue;
      }
      at = living_.erase(at);
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && killed_.contains(rank)) continue;
      read(); // what it said
      if (WIFSIGNALED(status))
        fail("rank " + std::to_string(rank) + " ended by signal " +
             std::to_string(WTERMSIG(status)));
      else if (WEXITSTATUS(status) != 0)
        fail("rank " + std::to_string(rank) + " exited with " +
             std::to_string(WEXITSTATUS(status)));
    }
  }

  void fail(const std::string& text) {
    failure_ += (failure_.empty() ? "" : "\n") + text;
    if (number_ >= 0)
      failure_ += "\n  round " + std::to_string(number_) + " is " +
                  world_.rounds[static_cast<std::size_t>(number_)].text();
  }

  /// Writes the stacks of all ranks to the standard output, and what they said last.
  void dumpStacks() {
    for (const int rank : living_) {
      const std::string pid = std::to_string(pids_[static_cast<std::size_t>(rank)]);
      ::kill(pids_[static_cast<std::size_t>(rank)], SIGQUIT); // a dump of its last calls
      failure_ += "\nrank " + std::to_string(rank) + ", process " + pid + ": " + last_[rank];
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
    for (const int rank : living_) {
      const std::string pid = std::to_string(pids_[static_cast<std::size_t>(rank)]);
      const std::string out = " >> " + folder_.file("stacks") + " 2>&1";
      std::string command = "{ echo rank " + std::to_string(rank) + "; timeout 20 gdb -p " + pid +
                            " -batch -ex 'thread apply all bt 30' || for t in /proc/" + pid +
                            "/task/*; do cat $t/comm $t/wchan $t/syscall $t/stack; echo; done; }" +
                            out;
      if (std::system(command.c_str()) != 0) failure_ += "\n(no stack of process " + pid + ")";
    }
    const std::string report =
        RONDO_COMMAND " report " + folder_.file("dumps") + " > " + folder_.file("calls") + " 2>&1";
    if (std::system(report.c_str()) != 0) failure_ += "\n(no report of the calls)";
  }

  void killAll() {
    for (const int rank : living_) ::kill(pids_[static_cast<std::size_t>(rank)], SIGKILL);
    for (const int rank : living_) ::waitpid(pids_[static_cast<std::size_t>(rank)], nullptr, 0);
    living_.clear();
  }

  static std::string contents(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const World& world_;
  const Settings& settings_;
  Counts& counts_;
  const TemporaryFolder folder_;
  int lines_ = -1; ///< not a UniqueFd, which a forked child does not inherit
  std::string text_, failure_;
  std::vector<pid_t> pids_;
  std::set<int> living_, killed_, refused_;
  std::vector<Signal> due_;
  std::map<int, std::size_t> began_, recovered_;
  std::map<int, std::string> last_;
  int number_ = -1;
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const auto number = [&] { return rondo::base::parseInteger(argv[i + 1], name, 0); };
    if (name == "--seconds") settings.time = std::chrono::seconds(number());
    else if (name == "--seed") settings.seed = static_cast<std::uint64_t>(number());
    else if (name == "--world") settings.first = static_cast<int>(number());
    else if (name == "--worlds") settings.worlds = static_cast<int>(number());
    else if (name == "--heartbeat")
      settings.heartbeat = rondo::base::parseDuration(argv[i + 1], name);
    else throw rondo::Error(rondo::ErrorCode::invalid_argument, "unknown argument " + name);
  }
  return settings;
}

} // namespace

int main(int argc, char** argv) {
  Settings settings;
  try {
    settings = parse(argc, argv);
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 2;
  }
  const auto begin = Clock::now();
  Counts counts;
  int index = settings.first;
  bool right = true;
  for (; right && index - settings.first < settings.worlds && Clock::now() - begin < settings.time;
       ++index) {
    const World world = makeWorld(settings.seed, index);
    const auto started = Clock::now();
    right = Run(world, settings, counts).run();
    std::printf("%s: %s, %.1f s\n", world.text().c_str(), right ? "right" : "WRONG",
                std::chrono::duration<double>(Clock::now() - started).count());
    std::fflush(stdout);
  }
  std::printf("%d worlds, %.0f s, %d ranks lost, this process was late by up to %lld ms; rounds:",
              index - settings.first, std::chrono::duration<double>(Clock::now() - begin).count(),
              counts.lost, static_cast<long long>(counts.latest.count()));
  for (const auto& [what, rounds] : counts.rounds) std::printf(" %s %d", row(what).name, rounds);
  std::printf("\n");
  return right ? 0 : 1;
}
