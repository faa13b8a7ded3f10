// Loads librondo_bootstrap_mpi.so and gets the unique id through MPI.
#include "bootstrap/mpi_module.h"

#include <dlfcn.h>

#include <string>

#include "base/module.h"
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
      "started by " + launch.launcher + ", but MPI cannot broadcast the rendezvous address: " +
          why + "; set RONDO_COMM_ID=host:port (and RONDO_SECRET_FILE beyond one machine) instead");
}

} // namespace

UniqueId exchangeByMpi(const LaunchInfo& launch, const Options& options) {
  std::string trouble;
  void* const module = base::openModule(kModule, true, trouble);
  if (module == nullptr) refuse(launch, trouble);
  const auto start = reinterpret_cast<rondo_mpi_start_function>(::dlsym(module, "rondo_mpi_start"));
  const auto broadcast =
      reinterpret_cast<rondo_mpi_broadcast_function>(::dlsym(module, "rondo_mpi_broadcast"));
  if (start == nullptr || broadcast == nullptr)
    refuse(launch, std::string(kModule) + " belongs to another version of Rondo");

  int rank = 0, size = 0;
  if (const char* why = start(&rank, &size)) refuse(launch, why);
  if (rank != launch.rank || size != launch.size)
    refuse(launch, "MPI says rank " + std::to_string(rank) + " of " + std::to_string(size) +
                       ", the environment rank " + std::to_string(launch.rank) + " of " +
                       std::to_string(launch.size) + " (is this the MPI of the launcher?)");
  UniqueId id;
  std::string failed; // other ranks wait in the broadcast, so rank 0 must call it
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
