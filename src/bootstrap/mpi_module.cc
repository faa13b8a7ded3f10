// Opens librondo_bootstrap_mpi.so beside this library or program, else where the system looks.
#include "bootstrap/mpi_module.h"

#include <dlfcn.h>

#include <string>
#include <vector>

#include "bootstrap/mpi/module.h"
#include "bootstrap/unique_id.h"
#include "rondo/error.h"
#include "rondo/options.h"

namespace rondo::bootstrap {

namespace {

constexpr const char* kModule = "librondo_bootstrap_mpi.so";

[[noreturn]] void refuse(const LaunchInfo& launch, const std::string& why) {
  throw Error(
      ErrorCode::init_failed,
      "started by " + launch.launcher + ", but MPI cannot carry the address where to meet: " + why +
          "; set RONDO_COMM_ID=host:port (and RONDO_SECRET_FILE beyond one machine) instead");
}

/// Folders that may hold the module: the one this code was loaded from, and its neighbour lib.
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&exchangeByMpi), &info) != 0 &&
      info.dli_fname != nullptr) {
    const std::string file = info.dli_fname;
    if (const auto slash = file.rfind('/'); slash != std::string::npos) {
      const std::string folder = file.substr(0, slash + 1);
      paths.push_back(folder + kModule);
      paths.push_back(folder + "../lib/" + kModule);
    }
  }
  paths.emplace_back(kModule);
  return paths;
}

} // namespace

UniqueId exchangeByMpi(const LaunchInfo& launch, const Options& options) {
  void* module = nullptr;
  std::string trouble;
  for (const auto& path : candidates()) {
    // Never closed: MPI leaves threads and exit handlers behind. Its own plug-ins need its symbols.
    module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module != nullptr) break;
    if (const char* why = ::dlerror(); why != nullptr) trouble = why;
  }
  if (module == nullptr) refuse(launch, trouble);
  const auto start = reinterpret_cast<rondo_mpi_start_function>(::dlsym(module, "rondo_mpi_start"));
  const auto broadcast =
      reinterpret_cast<rondo_mpi_broadcast_function>(::dlsym(module, "rondo_mpi_broadcast"));
  if (start == nullptr || broadcast == nullptr)
    refuse(launch, std::string(kModule) + " is of another version");

  int rank = 0, size = 0;
  if (const char* why = start(&rank, &size)) refuse(launch, why);
  if (rank != launch.rank || size != launch.size)
    refuse(launch, "MPI says rank " + std::to_string(rank) + " of " + std::to_string(size) +
                       ", the environment rank " + std::to_string(launch.rank) + " of " +
                       std::to_string(launch.size) +
                       " (is it the MPI that the launcher belongs to?)");
  UniqueId id;
  std::string failed; // the others wait in the broadcast: rank 0 must come there in any case
  if (rank == 0) {
    try {
      id = UniqueId::create(options);
    } catch (const Error& error) {
      failed = error.what();
    }
  }
  if (const char* why = broadcast(id.bytes.data())) refuse(launch, why);
  if (!failed.empty()) throw Error(ErrorCode::init_failed, failed);
  return id;
}

} // namespace rondo::bootstrap
