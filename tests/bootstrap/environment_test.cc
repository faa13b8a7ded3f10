// Tests launchers: the meaning of their variables, and that ranks started with them join one job.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "bootstrap/hub.h"
#include "bootstrap/launcher.h"
#include "net/interfaces.h"
#include "process.h"
#include "ranks.h"
#include "session_cases.h"
#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace bootstrap;

using Variables = std::map<std::string, std::string>;

Environment of(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

struct Dialect {
  std::string launcher, rank, size, local;
};
const Dialect kDialects[] = {
    {"rondo", "RONDO_RANK", "RONDO_SIZE", "RONDO_LOCAL_RANK"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"pmix", "PMIX_RANK", "SLURM_NPROCS", "SLURM_LOCALID"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

Variables variablesOf(const Dialect& d, const std::string& rank, const std::string& size,
                      const std::string& local) {
  return {{d.rank, rank}, {d.size, size}, {d.local, local}};
}

Outcome detecting(const Variables& variables) {
  return outcomeOf([&] { detectLauncher(of(variables)); });
}

} // namespace

TEST_CASE("the variables of every launcher give rank, size and local rank") {
  for (const Dialect& d : kDialects)
    for (const int size : {1, 2, 8, 1000})
      for (const int rank : {0, size / 2, size - 1}) {
        INFO(d.launcher << " " << rank << " of " << size);
        const LaunchInfo info = detectLauncher(of(
            variablesOf(d, std::to_string(rank), std::to_string(size), std::to_string(rank / 2))));
        CHECK(info.launcher == d.launcher);
        CHECK(info.rank == rank);
        CHECK(info.size == size);
        CHECK(info.local_rank == rank / 2);
      }
}

TEST_CASE("no launcher means one rank") {
  const LaunchInfo info = detectLauncher(of({}));
  CHECK(info.launcher == "");
  CHECK(info.rank == 0);
  CHECK(info.size == 1);
  // An allocation's variables do not make the process a rank.
  CHECK(detectLauncher(of({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}})).launcher == "");
}

TEST_CASE("if several launchers' variables are set, the first in the order is used") {
  for (std::size_t first = 0; first < std::size(kDialects); ++first)
    for (std::size_t second = first + 1; second < std::size(kDialects); ++second) {
      Variables both = variablesOf(kDialects[second], "2", "4", "0");
      for (const auto& [name, value] : variablesOf(kDialects[first], "1", "3", "1"))
        both[name] = value;
      const LaunchInfo info = detectLauncher(of(both));
      INFO(kDialects[first].launcher << " and " << kDialects[second].launcher);
      CHECK(info.launcher == kDialects[first].launcher);
      CHECK(info.rank == 1);
    }
}

TEST_CASE("invalid values are errors that name the variable") {
  for (const Dialect& d : kDialects) {
    const std::string kBad[] = {"x",     "-1", "1.5", "1 ", "+1", "0x1", "99999999999999999999",
                                "65537", "\n"};
    for (const std::string& bad : kBad) {
      INFO(d.launcher << " with " << bad);
      for (const auto& [name, variables] : {std::pair(d.rank, variablesOf(d, bad, "4", "0")),
                                            std::pair(d.size, variablesOf(d, "0", bad, "0")),
                                            std::pair(d.local, variablesOf(d, "0", "4", bad))}) {
        const Outcome outcome = detecting(variables);
        CHECK_FALSE(outcome.ok);
        CHECK(outcome.code == ErrorCode::invalid_argument);
        CHECK(outcome.text.find(name) != std::string::npos);
      }
    }
    INFO(d.launcher);
    for (const Variables& variables : {variablesOf(d, "4", "4", "0"), variablesOf(d, "0", "0", "0"),
                                       variablesOf(d, "1", "4", "4"), Variables{{d.rank, "0"}}}) {
      const Outcome outcome = detecting(variables);
      CHECK_FALSE(outcome.ok);
      CHECK(outcome.code == ErrorCode::invalid_argument);
    }
  }
  // A size without a rank is an incomplete environment, if the size variable is the launcher's own.
  for (const char* name : {"RONDO_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    INFO(name);
    CHECK(detecting({{name, "4"}}).code == ErrorCode::invalid_argument);
  }
}

TEST_CASE("the rendezvous of a launch follows from its variables") {
  const auto meeting = [](const std::string& launcher, const Variables& variables,
                          const std::string& comm_id = "") {
    Options options;
    options.comm_id = comm_id;
    return findMeetingPoint({1, 4, 1, launcher}, options, of(variables));
  };
  using Kind = MeetingPoint::Kind;
  CHECK(meeting("rondo", {{"RONDO_ID_FD", "5"}}).kind == Kind::descriptor);
  CHECK(meeting("rondo", {{"RONDO_ID_FD", "5"}}).descriptor == 5);
  CHECK(meeting("rondo", {}, "h:1").address == "h:1");
  CHECK(meeting("openmpi", {}).kind == Kind::mpi);
  CHECK(meeting("pmi", {}).kind == Kind::mpi);
  CHECK(meeting("pmix", {}).kind == Kind::mpi);
  CHECK(meeting("openmpi", {}, "h:1").kind == Kind::address);
  for (const char* launcher : {"torchrun", "openmpi", "pmi", "pmix", "slurm"}) {
    INFO(launcher);
    // The port after MASTER_PORT, which torch's own store uses.
    const Variables torch = {{"MASTER_ADDR", "a.b"}, {"MASTER_PORT", "29500"}};
    CHECK(meeting(launcher, torch).address == "a.b:29501");
    CHECK(meeting(launcher, torch, "h:1").address == "h:1");
    CHECK(meeting(launcher, {{"MASTER_ADDR", "fe80::1"}, {"MASTER_PORT", "1"}}).address ==
          "[fe80::1]:2");
    for (const char* port : {"0", "65535", "x", ""}) {
      const Outcome outcome = outcomeOf([&] {
        meeting(launcher, {{"MASTER_ADDR", "a.b"}, {"MASTER_PORT", port}});
      });
      CHECK(outcome.code == ErrorCode::invalid_argument);
      CHECK(outcome.text.find("MASTER_PORT") != std::string::npos);
    }
  }
  const auto slurm = [&](const std::string& job, const std::string& step) {
    return meeting("slurm", {{"SLURM_JOB_ID", job},
                             {"SLURM_STEP_ID", step},
                             {"SLURM_STEP_NODELIST", "n[03-05]"}})
        .address;
  };
  CHECK(slurm("1", "0").starts_with("n03:"));
  CHECK(slurm("1", "0") == slurm("1", "0"));
  CHECK(slurm("1", "0") != slurm("2", "0"));
  CHECK(slurm("1", "0") != slurm("1", "1"));
  CHECK(meeting("slurm", {}).address.starts_with("localhost:"));
  CHECK(meeting("pmix", {{"SLURM_PROCID", "1"}}).address.starts_with("localhost:"));
  for (const char* launcher : {"rondo", "torchrun"}) {
    const Outcome outcome = outcomeOf([&] { meeting(launcher, {}); });
    CHECK(outcome.code == ErrorCode::invalid_argument);
    CHECK(outcome.text.find("RONDO_COMM_ID") != std::string::npos);
  }
}

TEST_CASE("the first host of a Slurm node list is found") {
  const std::pair<std::string, std::string> kGood[] = {
      {"a", "a"},
      {"a,b", "a"},
      {"node[003-005,7]", "node003"},
      {"node[7,3]", "node7"},
      {"r[0-1]n[2-3],x", "r0n2"},
      {"n-1.site.org,n-2", "n-1.site.org"},
      {"n[1-2]-ib", "n1-ib"},
      {"n_1", "n_1"},
  };
  for (const auto& [list, host] : kGood) {
    INFO(list);
    CHECK(firstHost(list, "SLURM_JOB_NODELIST") == host);
  }
  for (const char* list :
       {"", ",a", "n[", "n[1", "n[]", "n[a-b]", "n[-2]", "a b", "a;b", "n]", "$x"}) {
    INFO(list);
    const Outcome outcome = outcomeOf([&] { firstHost(list, "SLURM_JOB_NODELIST"); });
    CHECK(outcome.code == ErrorCode::invalid_argument);
    CHECK(outcome.text.find("SLURM_JOB_NODELIST") != std::string::npos);
  }
}

namespace {

/// A file in its own folder, removed with this object.
class ScratchFile {
 public:
  ScratchFile(const std::string& content, mode_t mode) {
    std::string pattern = (std::filesystem::temp_directory_path() / "rondo-test-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    const base::UniqueFd fd(::open(path().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    REQUIRE(::write(fd.get(), content.data(), content.size()) ==
            static_cast<ssize_t>(content.size()));
    REQUIRE(::fchmod(fd.get(), mode) == 0);
  }
  ~ScratchFile() { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/secret"; }

 private:
  std::string folder_;
};

} // namespace

TEST_CASE("a secret file has 32 bytes or 64 digits, and only its owner may access it") {
  const std::string digits = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
  for (const std::string& content : {std::string(32, '\1'), digits, digits + "\n"}) {
    const net::Secret secret = readSecretFile(ScratchFile(content, 0600).path());
    CHECK(secret.present);
    CHECK(secret.bytes[1] == (content.size() == 32 ? std::byte{1} : std::byte{0x11}));
    CHECK(secret.bytes[31] == (content.size() == 32 ? std::byte{1} : std::byte{0xff}));
  }
  for (const std::string& content : {std::string(), std::string(31, 'a'), std::string(33, 'a'),
                                     digits + "0", std::string(64, 'g'), std::string(200, 'a')}) {
    const ScratchFile file(content, 0600);
    const Outcome outcome = outcomeOf([&] { readSecretFile(file.path()); });
    CHECK(outcome.code == ErrorCode::data);
    CHECK(outcome.text.find(file.path()) != std::string::npos);
  }
  for (const mode_t mode : {0640, 0604, 0666, 0620}) {
    const ScratchFile file(digits, mode);
    CHECK(outcomeOf([&] { readSecretFile(file.path()); }).text.find("0600") != std::string::npos);
  }
  CHECK(outcomeOf([] { readSecretFile("/nowhere/at/all"); }).code == ErrorCode::data);
  CHECK(outcomeOf([] { readSecretFile("/dev/zero"); }).code == ErrorCode::data);
}

TEST_CASE("a descriptor without an id is refused") {
  CHECK(outcomeOf([] { readIdDescriptor(1 << 29); }).code == ErrorCode::invalid_argument);
  const ScratchFile file("short", 0600);
  const base::UniqueFd fd(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(outcomeOf([&] { readIdDescriptor(fd.get()); }).text.find("5 bytes") != std::string::npos);
}

TEST_CASE("programs that a rank executes do not inherit its id") {
  const Launch launch(2);
  const base::UniqueFd fd(::dup(launch.descriptor())); // as a rank gets it
  REQUIRE((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) == 0);
  readIdDescriptor(fd.get());
  CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  readIdDescriptor(fd.get()); // the rank itself may read it again
}

TEST_CASE("ranks started by any launcher's variables join one job") {
  const ScratchFile secret(std::string(32, 's'), 0600);
  const std::string job_id = std::to_string(freePort()); // differs from run to run
  for (const Dialect& d : kDialects)
    for (const bool with_secret : {false, true}) {
      constexpr int kSize = 3;
      INFO(d.launcher << (with_secret ? " with a secret" : ""));
      const int port = freePort();
      std::vector<Process> ranks;
      for (int rank = 0; rank < kSize; ++rank) {
        Variables variables =
            variablesOf(d, std::to_string(rank), std::to_string(kSize), std::to_string(rank));
        if (d.launcher == "torchrun") {
          variables["MASTER_ADDR"] = "127.0.0.1";
          variables["MASTER_PORT"] = std::to_string(port - 1);
        } else if (d.launcher == "slurm") {
          variables["SLURM_JOB_ID"] = job_id;
          variables["SLURM_STEP_ID"] = with_secret ? "1" : "0";
        } else {
          variables["RONDO_COMM_ID"] = "127.0.0.1:" + std::to_string(port);
        }
        if (with_secret) variables["RONDO_SECRET_FILE"] = secret.path();
        ranks.emplace_back(Process::Settings{
            RONDO_TEST_PROGRAMS "/program_bootstrap_member", {"once"}, variables, -1});
      }
      for (auto& rank : ranks) {
        CHECK(rank.line() == "done");
        CHECK(rank.end().value_or(-1) == 0);
      }
    }
}

// Proves: a choice of interfaces, which is for the data, needs no secret while the hub is on
// loopback.
TEST_CASE("ranks join on loopback without a secret, whatever interface is named") {
  std::string outer;
  for (const auto& item : net::listInterfaces())
    if (!item.address.loopback() && item.address.family == net::SocketAddress::Family::inet)
      outer = item.name;
  if (outer.empty()) {
    WARN("skipped: this machine has only loopback");
    return;
  }
  for (const char* variable : {"RONDO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const std::string address = "127.0.0.1:" + std::to_string(freePort());
    std::vector<Process> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back(Process::Settings{RONDO_TEST_PROGRAMS "/program_bootstrap_member",
                                           {"once"},
                                           {{"RONDO_RANK", std::to_string(rank)},
                                            {"RONDO_SIZE", "2"},
                                            {"RONDO_COMM_ID", address},
                                            {variable, outer}},
                                           -1});
    for (auto& rank : ranks) CHECK(rank.line() == "done");
  }
}

TEST_CASE("no rank listens beyond loopback without a secret") {
  Process rank({RONDO_TEST_PROGRAMS "/program_bootstrap_member",
                {"once"},
                {{"RONDO_RANK", "0"}, {"RONDO_SIZE", "2"}, {"RONDO_COMM_ID", "192.0.2.1:29500"}},
                -1});
  const std::string line = rank.line();
  INFO(line);
  CHECK(line.starts_with("error init_failed"));
  CHECK(line.find("RONDO_SECRET_FILE") != std::string::npos);
}

TEST_CASE("the rendezvous is at an address that others can reach, whatever the hosts file says") {
  // In a network and with a hosts file of its own, which needs root. Debian maps a machine's name
  // to 127.0.1.1.
  const std::string inside = "ip link set lo up && ip addr add 10.9.8.7/32 dev lo && ";
  if (std::system(("unshare --mount --net sh -c '" + inside + "true' 2>/dev/null").c_str()) != 0) {
    WARN("skipped: no namespaces here");
    return;
  }
  const ScratchFile secret(std::string(32, 's'), 0600), hosts("127.0.1.1 node.rondo.test\n", 0644);
  Process rank({"unshare",
                {"--mount", "--net", "sh", "-c",
                 inside + "mount --bind \"$0\" /etc/hosts && exec \"$1\" once", hosts.path(),
                 RONDO_TEST_PROGRAMS "/program_bootstrap_member"},
                {{"RONDO_RANK", "1"},
                 {"RONDO_SIZE", "2"},
                 {"RONDO_COMM_ID", "node.rondo.test:29500"},
                 {"RONDO_SECRET_FILE", secret.path()},
                 {"RONDO_INIT_TIMEOUT", "0.5"}},
                -1});
  const std::string line = rank.line();
  INFO(line);
  CHECK(line.starts_with("error init_failed"));
  CHECK(line.find("10.9.8.7:29500") != std::string::npos);
}

TEST_CASE("without a launcher environment() is one rank") {
  Process rank({RONDO_TEST_PROGRAMS "/program_bootstrap_member", {"once"}, {}, -1});
  CHECK(rank.line() == "done");
  CHECK(rank.end().value_or(-1) == 0);
}

// A sanitizer does not know the code of MPI's libraries.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("ranks started by mpirun join one job through MPI") {
  const std::string module = RONDO_TEST_PROGRAMS "/../lib/librondo_bootstrap_mpi.so";
  const bool has_mpi =
      std::filesystem::exists(module) && std::system("mpirun --version >/dev/null") == 0;
  if (!has_mpi) {
    WARN("this build has no MPI module, or the machine no mpirun: nothing to test");
    return;
  }
  Process launcher({"mpirun",
                    {"-np", "3", RONDO_TEST_PROGRAMS "/program_bootstrap_member", "once"},
                    {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                     {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                     {"OMPI_MCA_rmaps_base_oversubscribe", "1"}},
                    -1});
  for (int rank = 0; rank < 3; ++rank) CHECK(launcher.line() == "done");
  CHECK(launcher.end().value_or(-1) == 0);
}
#endif

} // namespace rondo::test
