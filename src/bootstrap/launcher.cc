// Detects launchers: rondo run, torchrun, Open MPI, PMI, PMIx, Slurm.
#include "bootstrap/launcher.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/parse.h"
#include "base/unique_fd.h"
#include "bootstrap/hub.h"
#include "rondo/error.h"

namespace rondo::bootstrap {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

struct Spelling {
  std::string launcher, rank;
  std::vector<std::string> sizes, local_ranks; ///< the first variable that is set counts
  bool local_defaults_to_rank = false;         ///< when none is set; if false, it is 0
};

const std::vector<Spelling>& spellings() {
  // Never destroyed: another thread may create a communicator while the process ends.
  static const auto& kSpellings = *new std::vector<Spelling>{
      {"rondo", "RONDO_RANK", {"RONDO_SIZE"}, {"RONDO_LOCAL_RANK"}, true},
      {"torchrun", "RANK", {"WORLD_SIZE"}, {"LOCAL_RANK"}, false},
      {"openmpi",
       "OMPI_COMM_WORLD_RANK",
       {"OMPI_COMM_WORLD_SIZE"},
       {"OMPI_COMM_WORLD_LOCAL_RANK"},
       false},
      {"pmi",
       "PMI_RANK",
       {"PMI_SIZE"},
       {"MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"},
       false},
      {"pmix",
       "PMIX_RANK",
       {"PMIX_SIZE", "SLURM_NPROCS", "SLURM_NTASKS"},
       {"PMIX_LOCAL_RANK", "SLURM_LOCALID"},
       false},
      {"slurm", "SLURM_PROCID", {"SLURM_NPROCS", "SLURM_NTASKS"}, {"SLURM_LOCALID"}, false},
  };
  return kSpellings;
}

/// The first variable of the list that is set.
std::optional<std::string> firstSet(const std::vector<std::string>& names,
                                    const Environment& environment) {
  for (const auto& name : names)
    if (environment(name)) return name;
  return std::nullopt;
}

int integer(const std::string& variable, const Environment& environment, int lowest, int highest) {
  return static_cast<int>(base::parseInteger(*environment(variable), variable, lowest, highest));
}

std::string orNothing(const std::optional<std::string>& text) { return text.value_or(""); }

/// MASTER_ADDR and MASTER_PORT + 1: torch's own store uses MASTER_PORT.
std::string besideTorch(const Environment& environment) {
  const std::string host = *environment("MASTER_ADDR");
  if (!environment("MASTER_PORT")) refuse("MASTER_ADDR is set, but MASTER_PORT is not");
  const int port = integer("MASTER_PORT", environment, 1, 65534) + 1;
  const bool bare_v6 = host.find(':') != std::string::npos && host.front() != '[';
  return (bare_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string slurmAddress(const Environment& environment) {
  // Below the range of ephemeral ports.
  constexpr int kLowestPort = 20000, kPorts = 10000;
  std::string host = "localhost";
  const auto list =
      firstSet({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}, environment);
  if (list) host = firstHost(*environment(*list), *list);
  std::int64_t job = 0;
  if (const auto id = firstSet({"SLURM_JOB_ID", "SLURM_JOBID"}, environment))
    job = base::parseInteger(*environment(*id), *id, 0);
  std::int64_t step = 0;
  if (const auto id = firstSet({"SLURM_STEP_ID", "SLURM_STEPID"}, environment))
    step = base::parseInteger(*environment(*id), *id, 0);
  // Steps of a job may run at the same time. Jobs on one node usually run one after the other.
  const std::int64_t port = kLowestPort + (job % kPorts * 31 + step % kPorts) % kPorts;
  return host + ":" + std::to_string(port);
}

} // namespace

Environment processEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

LaunchInfo detectLauncher(const Environment& environment) {
  for (const Spelling& spelling : spellings()) {
    const auto size = firstSet(spelling.sizes, environment);
    const bool has_rank = environment(spelling.rank).has_value();
    // Launchers share size variables (Slurm's). A size alone identifies only launchers with their
    // own size variable.
    if (!has_rank) {
      const bool own = spelling.launcher != "pmix" && spelling.launcher != "slurm";
      if (size && own) refuse(*size + " is set, but " + spelling.rank + " is not");
      continue;
    }
    if (!size)
      refuse(spelling.rank + " is set, but " + base::join(spelling.sizes, " or ") + " is not");
    LaunchInfo info;
    info.launcher = spelling.launcher;
    info.size = integer(*size, environment, 1, Hub::kMostRanks);
    info.rank = integer(spelling.rank, environment, 0, Hub::kMostRanks);
    if (info.rank >= info.size)
      refuse(spelling.rank + "=" + std::to_string(info.rank) + " is not below " + *size + "=" +
             std::to_string(info.size));
    if (const auto local = firstSet(spelling.local_ranks, environment)) {
      info.local_rank = integer(*local, environment, 0, Hub::kMostRanks);
      if (info.local_rank >= info.size)
        refuse(*local + "=" + std::to_string(info.local_rank) + " is not below " + *size + "=" +
               std::to_string(info.size));
    } else if (spelling.local_defaults_to_rank) {
      info.local_rank = info.rank;
    }
    return info;
  }
  return {};
}

MeetingPoint findMeetingPoint(const LaunchInfo& launch, const Options& options,
                              const Environment& environment) {
  MeetingPoint point;
  if (launch.launcher == "rondo" && environment("RONDO_ID_FD")) {
    point.kind = MeetingPoint::Kind::descriptor;
    point.descriptor = integer("RONDO_ID_FD", environment, 0, 1 << 30);
    return point;
  }
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID"})
    point.job += orNothing(environment(name)) + "/";
  if (!options.comm_id.empty()) {
    point.address = options.comm_id;
  } else if (environment("MASTER_ADDR")) {
    point.address = besideTorch(environment);
  } else if (launch.launcher == "openmpi" || launch.launcher == "pmi") {
    point.kind = MeetingPoint::Kind::mpi;
  } else if (launch.launcher == "slurm" || environment("SLURM_PROCID")) {
    point.address = slurmAddress(environment);
  } else if (launch.launcher == "pmix") {
    point.kind = MeetingPoint::Kind::mpi;
  } else {
    refuse(
        "launched as rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.size) +
        " (" + launch.launcher +
        "), but no variable names the rendezvous: set RONDO_COMM_ID=host:port, or MASTER_ADDR and "
        "MASTER_PORT");
  }
  return point;
}

std::string firstHost(const std::string& list, const std::string& variable) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      const char c = list[at++];
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.' && c != '_')
        refuse(variable + "=" + base::quoted(list) + ": a host name cannot contain '" + c + "'");
      host += c;
      continue;
    }
    const std::size_t end = list.find(']', at);
    if (end == std::string::npos) refuse(variable + "=" + base::quoted(list) + ": '[' without ']'");
    const std::string ranges = list.substr(at + 1, end - at - 1);
    const std::string first = ranges.substr(0, ranges.find_first_of(",-"));
    if (first.empty() || first.find_first_not_of("0123456789") != std::string::npos)
      refuse(variable + "=" + base::quoted(list) + ": no number at the start of '[...]'");
    host += first;
    at = end + 1;
  }
  if (host.empty()) refuse(variable + "=" + base::quoted(list) + " names no host");
  return host;
}

net::Secret readSecretFile(const std::string& path) {
  const auto fail = [&](const std::string& why) -> void {
    throw Error(ErrorCode::data, "secret file " + base::quoted(path) + ": " + why);
  };
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail(std::strerror(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail("it is not a regular file");
  if (info.st_uid != ::geteuid()) fail("it belongs to another user");
  if ((info.st_mode & 077) != 0) fail("others may access it; its mode must be 0600");
  std::array<char, 80> bytes{};
  const ssize_t size = ::read(fd.get(), bytes.data(), bytes.size());
  if (size < 0) fail(std::strerror(errno));
  net::Secret secret;
  secret.present = true;
  if (static_cast<std::size_t>(size) == secret.bytes.size()) {
    std::memcpy(secret.bytes.data(), bytes.data(), secret.bytes.size());
    return secret;
  }
  const std::string_view digits =
      base::trim(std::string_view(bytes.data(), static_cast<std::size_t>(size)));
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    const int lower = std::tolower(static_cast<unsigned char>(c));
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  if (digits.size() != 2 * secret.bytes.size()) fail("it holds neither 32 bytes nor 64 hex digits");
  for (std::size_t i = 0; i < secret.bytes.size(); ++i) {
    const int high = digit(digits[2 * i]), low = digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) fail("it contains a character that is not a hex digit");
    secret.bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  return secret;
}

UniqueId readIdDescriptor(int descriptor) {
  UniqueId id;
  // pread(), because several threads, and programs that run one after the other, may read it.
  const ssize_t size = ::pread(descriptor, id.bytes.data(), id.bytes.size(), 0);
  const std::string what = "RONDO_ID_FD=" + std::to_string(descriptor) + ": ";
  // It holds the job's secret, so programs that this rank executes must not inherit it.
  if (size > 0) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  if (size < 0) refuse(what + std::strerror(errno));
  if (static_cast<std::size_t>(size) != id.bytes.size())
    refuse(what + "holds " + std::to_string(size) + " bytes in place of " +
           std::to_string(id.bytes.size()));
  return id;
}

} // namespace rondo::bootstrap
