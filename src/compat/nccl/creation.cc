// Creates communicators (from an id, for all GPUs at once, or from another communicator), and
// finalizes, aborts and destroys them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <span>
#include <string>

#include "compat/nccl/creation.h"
#include "compat/nccl/cuda_driver.h"
#include "compat/nccl/group.h"

namespace rondo::compat::nccl {

namespace {

/// The content of an id that holds no rendezvous of its own: its ranks meet at RONDO_COMM_ID.
constexpr char kAtCommId[] = "ranks meet at RONDO_COMM_ID";

/// The configuration that was passed. As in NCCL, NCCL_COMM_BLOCKING overrides its mode.
Config configHere(const ncclConfig_t* given) {
  Config config = configOf(given);
  if (const char* blocking = std::getenv("NCCL_COMM_BLOCKING"))
    config.blocking = std::strcmp(blocking, "0") != 0;
  return config;
}

} // namespace

Config configOfChild(const ncclConfig_t* given, const Config& parent) {
  return given ? configHere(given) : parent;
}

ncclUniqueId asNccl(const UniqueId& made) {
  ncclUniqueId id{};
  std::memcpy(id.internal, made.bytes.data(), made.bytes.size());
  return id;
}

UniqueId asRondo(const ncclUniqueId& id) {
  UniqueId bytes;
  std::memcpy(bytes.bytes.data(), id.internal, bytes.bytes.size());
  return bytes;
}

Rendezvous meetingOf(const ncclUniqueId& id, int rank, int size) {
  if (std::memcmp(id.internal, kAtCommId, sizeof kAtCommId) == 0)
    return Rendezvous::commId(rank, size);
  return Rendezvous::uniqueId(asRondo(id), rank, size);
}

namespace {

/// `*comm`: the program's handle, or null if this rank is not in the new communicator.
ncclResult_t finishOrReturn(ncclComm& handle, bool blocking, ncclComm_t* comm) {
  if (Groups::open()) {
    Groups::add(handle, blocking, *comm != nullptr);
    return ncclSuccess;
  }
  if (!blocking) return ncclInProgress;
  try {
    handle.await();
  } catch (...) {
    *comm = nullptr;
    throw;
  }
  return ncclSuccess;
}

} // namespace

ncclResult_t handOut(ncclComm::Making making, const Config& config, int device, bool blocking,
                     ncclComm_t* comm) {
  *comm = ncclComm::make(std::move(making), config, device);
  return finishOrReturn(**comm, blocking, comm);
}

ncclResult_t handOut(ncclComm::Making making, const Config& config, Member& parent,
                     ncclComm_t* comm, bool joins) {
  ncclComm* const handle = ncclComm::make(std::move(making), config, parent.device);
  *comm = joins ? handle : nullptr;
  parent.add({handle, joins});
  return finishOrReturn(*handle, parent.config.blocking, comm);
}

ncclResult_t initRank(ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                      const ncclConfig_t* config) {
  needAddress(comm, "the address of the communicator");
  *comm = nullptr;
  const Config values = configHere(config);
  const Options options = optionsOfThread();
  auto making = Communicator::createAsync(meetingOf(id, rank, nranks), options);
  return handOut(std::move(making), values, options.device, values.blocking, comm);
}

namespace {

void checkDevices(std::span<const int> devices) {
  const int there = CudaDriver::get().devices();
  for (const int device : devices)
    if (device < 0 || (there > 0 && device >= there))
      refuse(ncclInvalidArgument, "device " + std::to_string(device) + " does not exist");
}

ncclResult_t initAll(ncclComm_t* comm, int ndev, const int* devlist) {
  needAddress(comm, "the address of the communicators");
  if (ndev < 1)
    refuse(ncclInvalidArgument, "ndev is " + std::to_string(ndev) + "; valid: 1 or more");
  const auto ranks = static_cast<std::size_t>(ndev);
  if (devlist) checkDevices({devlist, ranks});
  Options options = optionsOfThread();
  const bool on_devices = options.device >= 0;
  const Rendezvous meet = Rendezvous::inProcess(ndev);
  const Config config = configHere(nullptr);
  std::vector<ncclComm*> all;
  for (int rank = 0; rank < ndev; ++rank) {
    if (on_devices) options.device = devlist ? devlist[rank] : rank;
    all.push_back(
        ncclComm::make(Communicator::createAsync(meet.as(rank), options), config, options.device));
  }
  for (ncclComm* one : all) one->await();
  std::copy(all.begin(), all.end(), comm);
  return ncclSuccess;
}

ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                   const ncclConfig_t* config) {
  needAddress(newcomm, "the address of the new communicator");
  *newcomm = nullptr;
  const auto parent = ncclComm::known(comm).active();
  if (color < Communicator::kNoColor)
    refuse(ncclInvalidArgument, "color " + std::to_string(color) + " is negative");
  const Config values = configOfChild(config, parent->config);
  const bool joins = color != Communicator::kNoColor;
  if (parent->revoked()) {
    // A revoked communicator runs no calls, but its ranks are alive. They build a new communicator
    // and split that one.
    auto anew = std::async(std::launch::async, [parent, color, key] {
      return parent->comm.shrink({}).split(color, key);
    });
    return handOut(std::move(anew), values, *parent, newcomm, joins);
  }
  return handOut(parent->comm.splitAsync(color, key), values, *parent, newcomm, joins);
}

constexpr int kShrinkAbort = 1;

ncclResult_t shrink(ncclComm_t comm, const int* excluded, int count, ncclComm_t* newcomm,
                    const ncclConfig_t* config, int flags) {
  needAddress(newcomm, "the address of the new communicator");
  *newcomm = nullptr;
  const auto parent = ncclComm::known(comm).active();
  if (count < 1 || !excluded) refuse(ncclInvalidArgument, "the list of excluded ranks is empty");
  if (flags != 0 && flags != kShrinkAbort)
    refuse(ncclInvalidArgument, "flags " + std::to_string(flags) + " are unknown; valid: 0, 1");
  const Config values = configOfChild(config, parent->config);
  const std::span<const int> ranks(excluded, static_cast<std::size_t>(count));
  auto making = parent->comm.shrinkAsync(ranks); // refuses a wrong list
  // NCCL_SHRINK_ABORT: ends the calls in flight of the old communicator.
  if (flags == kShrinkAbort) parent->revoke();
  return handOut(std::move(making), values, *parent, newcomm);
}

/// Ends this rank's membership. Other ranks' calls continue if they need nothing from this rank.
/// `abort`: if this rank has calls in flight, all calls end.
ncclResult_t end(ncclComm_t comm, bool abort) {
  if (!comm) return ncclSuccess; // as in NCCL, for handles that a split without this rank left null
  ncclComm& handle = ncclComm::known(comm);
  const auto member = handle.end(abort);
  if (!member) return ncclSuccess;
  // The handle has released its reference. Any owner besides this variable is a call in another
  // thread.
  const bool in_flight = member.use_count() > 1 || member->busy();
  if (abort && in_flight) member->comm.abort("ncclCommAbort");
  return ncclSuccess;
}

} // namespace

NCCL_EXPORT(ncclResult_t, GetUniqueId, (ncclUniqueId * uniqueId)) {
  return answer("ncclGetUniqueId", [&] {
    needAddress(uniqueId, "the address of the id");
    const Options options = Options::fromEnvironment();
    ncclUniqueId id{};
    if (!options.comm_id.empty()) std::memcpy(id.internal, kAtCommId, sizeof kAtCommId);
    else id = asNccl(UniqueId::create(options));
    *uniqueId = id;
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommInitRank,
            (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank)) {
  return answerInGroup("ncclCommInitRank",
                       [&] { return initRank(comm, nranks, commId, rank, nullptr); });
}

NCCL_EXPORT(ncclResult_t, CommInitRankConfig,
            (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config)) {
  return answerInGroup("ncclCommInitRankConfig",
                       [&] { return initRank(comm, nranks, commId, rank, config); });
}

NCCL_EXPORT(ncclResult_t, CommInitRankScalable,
            (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
             ncclConfig_t* config)) {
  return answerInGroup("ncclCommInitRankScalable", [&] {
    needAddress(commIds, "the list of ids");
    if (nId < 1 || nId > nranks)
      refuse(ncclInvalidArgument, std::to_string(nId) + " ids; valid: 1 to the number of ranks, " +
                                      std::to_string(nranks));
    // The first id's rendezvous serves all ranks. The other ids are not used.
    return initRank(newcomm, nranks, commIds[0], myrank, config);
  });
}

NCCL_EXPORT(ncclResult_t, CommInitAll, (ncclComm_t * comm, int ndev, const int* devlist)) {
  return answerInGroup("ncclCommInitAll", [&] { return initAll(comm, ndev, devlist); });
}

NCCL_EXPORT(ncclResult_t, CommSplit,
            (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)) {
  return answerInGroup("ncclCommSplit", [&] { return split(comm, color, key, newcomm, config); });
}

NCCL_EXPORT(ncclResult_t, CommShrink,
            (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
             ncclConfig_t* config, int shrinkFlags)) {
  return answerInGroup("ncclCommShrink", [&] {
    return shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  });
}

NCCL_EXPORT(ncclResult_t, CommRevoke, (ncclComm_t comm, int revokeFlags)) {
  return answerInGroup("ncclCommRevoke", [&] {
    if (!comm) return ncclSuccess;
    if (revokeFlags != 0)
      refuse(ncclInvalidArgument,
             "flags " + std::to_string(revokeFlags) + " are unknown; valid: 0");
    ncclComm::known(comm).member()->revoke();
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommFinalize, (ncclComm_t comm)) {
  return answerInGroup("ncclCommFinalize", [&] {
    if (!comm) return ncclSuccess;
    ncclComm& handle = ncclComm::known(comm);
    const auto member = handle.member();
    handle.finalize();
    if (!member->config.blocking) return member->busy() ? ncclInProgress : ncclSuccess;
    member->drain();
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommDestroy, (ncclComm_t comm)) {
  return answerInGroup("ncclCommDestroy", [&] { return end(comm, false); });
}

NCCL_EXPORT(ncclResult_t, CommAbort, (ncclComm_t comm)) {
  return answerInGroup("ncclCommAbort", [&] { return end(comm, true); });
}

} // namespace rondo::compat::nccl
