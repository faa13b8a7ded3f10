// Checks of this machine's limits, memory and processors.
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "tools/descriptor.h"
#include "tools/doctor_checks.h"

namespace rondo::tools {

namespace {

using Config = DoctorConfig;

constexpr double kMebi = 1024 * 1024;

std::string mebibytes(double bytes) {
  if (bytes < kMebi) return std::to_string(static_cast<long long>(bytes / 1024)) + " KiB";
  return std::to_string(static_cast<long long>(bytes / kMebi)) + " MiB";
}

/// The soft limit; none if there is no limit.
std::optional<double> limitOf(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

int processorsAllowed() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

/// Whether there is a network card that registers memory.
bool hasRdma() {
  std::error_code none;
  return std::filesystem::directory_iterator("/sys/class/infiniband", none) !=
         std::filesystem::directory_iterator();
}

std::optional<Fault> memoryFiles(const Config&) {
  const Descriptor file(::memfd_create("rondo-doctor", MFD_CLOEXEC));
  if (!file)
    return Fault{false, std::string("memory files are refused (memfd_create: ") +
                            std::strerror(errno) + "), so ranks use TCP instead of shared memory"};
  return std::nullopt;
}

std::optional<Fault> fileSize(const Config&) {
  const auto limit = limitOf(RLIMIT_FSIZE);
  if (!limit || *limit >= 256 * kMebi) return std::nullopt;
  return Fault{false,
               "files may have only " + mebibytes(*limit) + ", and shared memory counts as a file"};
}

std::optional<Fault> sharedMemory(const Config&) {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0)
    return Fault{false, "/dev/shm is missing; Rondo does not use it, but MPI, UCX and PyTorch do"};
  const double bytes = static_cast<double>(info.f_blocks) * static_cast<double>(info.f_frsize);
  if (bytes > 64 * kMebi) return std::nullopt;
  return Fault{false, "/dev/shm has only " + mebibytes(bytes) +
                          "; Rondo does not use it, but MPI, UCX and PyTorch do"};
}

std::optional<Fault> lockedMemory(const Config&) {
  const auto limit = limitOf(RLIMIT_MEMLOCK);
  if (!limit || *limit >= 64 * kMebi || !hasRdma()) return std::nullopt;
  return Fault{false, "only " + mebibytes(*limit) +
                          " may be locked, but RDMA cards read only locked memory"};
}

std::optional<Fault> descriptors(const Config& config) {
  const auto limit = limitOf(RLIMIT_NOFILE);
  // A process uses up to 16 descriptors, and some for each rank that it reaches by shm or TCP.
  const double needed = 256 + 8.0 * config.ranks;
  if (!limit || *limit >= needed) return std::nullopt;
  return Fault{*limit < 32,
               "a process may open only " + std::to_string(static_cast<long>(*limit)) + " files"};
}

std::optional<Fault> addressSpace(const Config&) {
  const auto limit = limitOf(RLIMIT_AS);
  if (!limit || *limit >= 1024 * kMebi) return std::nullopt;
  return Fault{*limit < 64 * kMebi,
               "a process may have only " + mebibytes(*limit) + " of address space"};
}

std::optional<Fault> memoryLimit(const Config&) {
  std::string text = firstLine("/sys/fs/cgroup/memory.max");
  if (text.empty()) text = firstLine("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  const double bytes = std::strtod(text.c_str(), nullptr);
  if (bytes <= 0 || bytes >= 256 * kMebi) return std::nullopt;
  return Fault{false, "the control group may use only " + mebibytes(bytes) + " of memory"};
}

/// Processors' worth of time that the control group gets; none if it has no limit.
std::optional<double> quota() {
  double part = 0, whole = 0;
  if (std::sscanf(firstLine("/sys/fs/cgroup/cpu.max").c_str(), "%lf %lf", &part, &whole) != 2) {
    part = std::strtod(firstLine("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").c_str(), nullptr);
    whole = std::strtod(firstLine("/sys/fs/cgroup/cpu/cpu.cfs_period_us").c_str(), nullptr);
  }
  if (part <= 0 || whole <= 0) return std::nullopt;
  return part / whole;
}

std::optional<Fault> processorTime(const Config&) {
  const auto share = quota();
  if (!share || *share >= processorsAllowed() - 0.01) return std::nullopt;
  char text[160];
  std::snprintf(text, sizeof(text),
                "the control group gets the time of %.1f processors and sees %d: ranks that wait "
                "use it up, and then all of them are stopped for milliseconds",
                *share, processorsAllowed());
  return Fault{false, text};
}

std::optional<Fault> oversubscription(const Config& config) {
  const int processors = processorsAllowed();
  if (config.ranks <= processors || processors == 0) return std::nullopt;
  return Fault{false, std::to_string(config.ranks) + " ranks share " + std::to_string(processors) +
                          " processors: a small call takes tens of microseconds instead of one"};
}

std::optional<Fault> readingPeers(const Config&) {
  int from = 1, to = 0;
  const iovec local{&to, sizeof(to)}, remote{&from, sizeof(from)};
  if (::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) < 0)
    return Fault{false, std::string("processes may not read each other's memory (CMA): ") +
                            std::strerror(errno) +
                            "; UCX and MPI then copy through shared memory (two copies)"};
  const std::string scope = firstLine("/proc/sys/kernel/yama/ptrace_scope");
  if (scope != "2" && scope != "3") return std::nullopt;
  return Fault{false, "kernel.yama.ptrace_scope is " + scope +
                          ": processes may not read each other's memory; UCX and MPI then copy "
                          "through shared memory (two copies)"};
}

std::optional<Fault> governor(const Config&) {
  const std::string folder = "/sys/devices/system/cpu/cpu0/cpufreq/";
  const std::string now = firstLine(folder + "scaling_governor");
  const std::string driver = firstLine(folder + "scaling_driver");
  // The drivers with "pstate" choose the frequency themselves, whatever the governor's name.
  if ((now != "powersave" && now != "conservative") || driver.find("pstate") != std::string::npos)
    return std::nullopt;
  return Fault{false, "the processors' frequency governor is " + now};
}

std::optional<Fault> hugePages(const Config&) {
  if (!firstLine("/sys/kernel/mm/transparent_hugepage/enabled").ends_with("[never]"))
    return std::nullopt;
  return Fault{false,
               "transparent huge pages are off: large buffers and messages then take more "
               "time in the processors' address translation"};
}

std::optional<Fault> procMounted(const Config&) {
  if (::access("/proc/self/stat", R_OK) == 0) return std::nullopt;
  return Fault{false, "/proc is not mounted: `rondo dump` and `rondo topo` see nothing"};
}

std::optional<Fault> clockSource(const Config&) {
  const std::string source =
      firstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (source != "hpet" && source != "acpi_pm" && source != "jiffies") return std::nullopt;
  return Fault{false, "the clock is " + source + ", which takes a microsecond to read"};
}

std::optional<Fault> wallClock(const Config&) {
  constexpr std::time_t k2025 = 1735689600;
  if (std::time(nullptr) >= k2025) return std::nullopt;
  return Fault{false,
               "the clock shows a time before 2025: logs and reports of several machines "
               "cannot be compared"};
}

/// The library's version by a function of its own, without starting it.
std::string versionOf(const char* library, const char* function) {
  void* const open = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (!open) return "missing";
  std::string text = "found";
  if (void* const symbol = ::dlsym(open, function)) {
    if (function == std::string("hwloc_get_api_version")) {
      const unsigned version = reinterpret_cast<unsigned (*)()>(symbol)();
      text = std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xff);
    } else if (function == std::string("ucp_get_version_string")) {
      text = reinterpret_cast<const char* (*)()>(symbol)();
    } else {
      std::array<char, 8192> name{};
      int length = 0;
      reinterpret_cast<int (*)(char*, int*)>(symbol)(name.data(), &length);
      text = std::string(name.data()).substr(0, std::string(name.data()).find_first_of(",\n"));
    }
  }
  return text; // it stays loaded: libraries of MPI cannot be unloaded
}

} // namespace

std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> libraryLines() {
  return {"UCX: " + versionOf("libucp.so.0", "ucp_get_version_string"),
          "hwloc: " + versionOf("libhwloc.so.15", "hwloc_get_api_version"),
          "Open MPI: " + versionOf("libmpi.so.40", "MPI_Get_library_version"),
          "MPICH: " + versionOf("libmpich.so.12", "MPI_Get_library_version")};
}

std::vector<Check> systemChecks() {
  return {
      {"memory files", memoryFiles,
       "let the container's seccomp profile allow memfd_create (docker: --security-opt "
       "seccomp=unconfined)"},
      {"file size", fileSize, "ulimit -f unlimited"},
      {"/dev/shm", sharedMemory, "docker: --shm-size=1g; else mount -o remount,size=1g /dev/shm"},
      {"locked memory", lockedMemory, "ulimit -l unlimited (docker: --ulimit memlock=-1)"},
      {"descriptors", descriptors, "ulimit -n 65536 (docker: --ulimit nofile=65536)"},
      {"address space", addressSpace, "ulimit -v unlimited"},
      {"memory", memoryLimit, "raise the container's limit (docker: --memory)"},
      {"processor time", processorTime,
       "start at most as many ranks as processors' worth of time, or raise the limit (docker: "
       "--cpus)"},
      {"oversubscription", oversubscription, "start fewer ranks, or use more machines"},
      {"CMA", readingPeers, "sysctl kernel.yama.ptrace_scope=0 (docker: --cap-add=SYS_PTRACE)"},
      {"frequency", governor, "cpupower frequency-set -g performance"},
      {"huge pages", hugePages, "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled"},
      {"/proc", procMounted, "mount -t proc proc /proc"},
      {"clock source", clockSource, "boot with clocksource=tsc, if the processors' counters agree"},
      {"wall clock", wallClock, "start an NTP client, such as chrony"},
  };
}

} // namespace rondo::tools
