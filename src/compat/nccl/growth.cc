// ncclCommGrow(), by Communicator::grow(). Before it, the old ranks tell each other whether a call
// is refused, and why, and then tell the joining ranks, which know their numbers and wait already.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compat/nccl/creation.h"
#include "compat/nccl/group.h"
#include "rondo/detail/shims.h"

namespace rondo::compat::nccl {

namespace {

using Blobs = std::vector<std::vector<std::byte>>;

/// What each old rank sends to the other old ranks, as raw bytes.
struct Wish {
  ncclResult_t refused = ncclSuccess; ///< not ncclSuccess: this rank's call is wrong, so all fail
  int ranks = 0;                      ///< size of the new communicator
  int has_id = 0;
  ncclUniqueId id{};
  char why[256] = {}; ///< the reason for `refused`, zero-terminated

  void refuse(const Refusal& refusal) {
    refused = refusal.result;
    refusal.text.copy(why, sizeof why - 1);
  }
};

std::vector<Wish> wishesOf(const Blobs& told) {
  std::vector<Wish> wishes(told.size());
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    if (told[rank].size() != sizeof(Wish))
      refuse(ncclInternalError, "rank " + std::to_string(rank) + " has another library");
    std::memcpy(&wishes[rank], told[rank].data(), sizeof(Wish));
  }
  return wishes;
}

/// Throws a Refusal that is the same on all old ranks.
void requireAgreement(const std::vector<Wish>& wishes) {
  const auto nameOf = [&](const Wish& one) { return "rank " + std::to_string(&one - &wishes[0]); };
  const Wish* found = nullptr;
  for (const Wish& one : wishes) {
    if (one.refused != ncclSuccess) refuse(one.refused, nameOf(one) + ": " + one.why);
    if (one.has_id && !found) found = &one;
  }
  for (const Wish& one : wishes) {
    if (one.ranks != wishes[0].ranks)
      refuse(ncclInvalidArgument, "rank 0 asks for " + std::to_string(wishes[0].ranks) +
                                      " ranks, " + nameOf(one) + " for " +
                                      std::to_string(one.ranks));
    if (one.has_id && std::memcmp(&one.id, &found->id, sizeof one.id) != 0)
      refuse(ncclInvalidArgument,
             nameOf(*found) + " and " + nameOf(one) + " passed ids that differ");
  }
  if (!found) refuse(ncclInvalidArgument, "no rank passed the id that ncclCommGetUniqueId() made");
}

/// Tells the ranks that wait at the id's rendezvous, or arrive later, that this rank does not come.
/// Gives up after 3 seconds: this rank's call fails in any case.
void decline(const ncclUniqueId& id, int rank, int ranks, const Refusal& why, Options options) {
  const ErrorCode code = why.result == ncclInvalidUsage  ? ErrorCode::unsupported
                         : why.result == ncclRemoteError ? ErrorCode::aborted
                                                         : ErrorCode::invalid_argument;
  try {
    options.init_timeout = std::min(options.init_timeout, std::chrono::milliseconds(3000));
    detail::Shims::decline(meetingOf(id, rank, ranks), Error(code, why.text), options);
  } catch (const Error&) {
    // No rank can be reached there, or the id or the size is not valid.
  }
}

/// Tells the joining ranks that the growth has failed. A joining rank waits at one of the ids that
/// the old ranks passed, with a size that one of them passed, so all combinations are tried.
void declineJoiners(const std::vector<Wish>& wishes, const Refusal& why, const Options& options) {
  std::set<int> sizes;
  std::map<std::string, ncclUniqueId> ids;
  for (const Wish& one : wishes) {
    if (one.ranks > static_cast<int>(wishes.size())) sizes.insert(one.ranks);
    if (one.has_id) ids[std::string(one.id.internal, sizeof one.id.internal)] = one.id;
  }
  for (const auto& [bytes, id] : ids)
    for (const int ranks : sizes) decline(id, 0, ranks, why, options);
}

/// Returns the wishes of all old ranks. If the communicator has failed, throws its error; a rank
/// that knows the id tells the joining ranks first.
std::vector<Wish> allWishes(const Wish& own, std::future<Blobs> told, const Options& options) {
  try {
    return wishesOf(told.get());
  } catch (...) {
    declineJoiners({own}, currentRefusal(), options);
    throw;
  }
}

/// Returns the communicator that Communicator::grow() makes, unless a rank's call was refused.
Communicator grownOf(const Communicator& parent, const Wish& own, std::future<Blobs> told,
                     std::future<Communicator> grown, const Options& options) {
  const std::vector<Wish> wishes = allWishes(own, std::move(told), options);
  try {
    requireAgreement(wishes);
  } catch (const Refusal& refusal) {
    if (parent.rank() == 0) declineJoiners(wishes, refusal, options);
    throw;
  }
  return grown.get();
}

/// The arguments of one rank's ncclCommGrow(), not checked yet.
struct Growth {
  int nranks;
  const ncclUniqueId* id;
  int rank;
  ncclComm_t* newcomm;
  const ncclConfig_t* config;
};

/// Checks an old rank's arguments and returns its configuration. Throws Refusal.
Config checked(const Growth& call, ncclComm_t comm, const Member& parent) {
  needAddress(call.newcomm, "the address of the new communicator");
  ncclComm::known(comm).active();
  if (call.rank != -1)
    refuse(ncclInvalidArgument, std::to_string(call.rank) +
                                    " is passed for its rank; ranks of the communicator keep "
                                    "theirs, and pass -1");
  if (call.nranks <= parent.comm.size())
    refuse(ncclInvalidArgument, std::to_string(call.nranks) + " ranks; the communicator has " +
                                    std::to_string(parent.comm.size()) + " already");
  if (parent.device >= 0)
    refuse(ncclInvalidUsage, "communicators on GPUs do not grow; make a new one of all ranks");
  return configOfChild(call.config, parent.config);
}

/// The call of an old rank. A rank with wrong arguments also takes part in the agreement; otherwise
/// the others would wait for it.
ncclResult_t grow(ncclComm_t comm, const Growth& call) {
  if (call.newcomm) *call.newcomm = nullptr;
  const auto parent = ncclComm::known(comm).member();
  Config values = parent->config;
  Wish own{.ranks = call.nranks, .has_id = call.id != nullptr};
  if (call.id) own.id = *call.id;
  Options options;
  try {
    options = optionsOfThread(); // read now: the program may change its environment later
    options.device = parent->device;
    values = checked(call, comm, *parent);
  } catch (...) {
    own.refuse(currentRefusal());
  }
  auto told = parent->comm.exchangeAsync(std::as_bytes(std::span(&own, 1)));
  const int newcomers = own.refused == ncclSuccess ? call.nranks - parent->comm.size() : 0;
  auto grows =
      parent->comm.growAsync(newcomers, own.has_id ? std::optional(asRondo(own.id)) : std::nullopt);
  auto grown = std::async(std::launch::async, [parent, own, options, told = std::move(told),
                                               grows = std::move(grows)]() mutable {
    return grownOf(parent->comm, own, std::move(told), std::move(grows), options);
  });
  ncclComm_t nowhere = nullptr;
  const ncclResult_t result =
      handOut(std::move(grown), values, parent->device, parent->config.blocking,
              call.newcomm ? call.newcomm : &nowhere);
  // The program gets no handle that could report the error, so it is reported here.
  if (!call.newcomm) refuse(own.refused, own.why);
  return result;
}

/// The call of a joining rank, which has no communicator yet.
ncclResult_t join(const Growth& call) {
  needAddress(call.id, "the id");
  try {
    needAddress(call.newcomm, "the address of the new communicator");
    configOf(call.config);
  } catch (const Refusal& refusal) {
    decline(*call.id, call.rank, call.nranks,
            {refusal.result, "rank " + std::to_string(call.rank) + ": " + refusal.text},
            optionsOfThread());
    throw;
  }
  return initRank(call.newcomm, call.nranks, *call.id, call.rank, call.config);
}

} // namespace

NCCL_EXPORT(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId)) {
  return answer("ncclCommGetUniqueId", [&] {
    ncclComm::known(comm).active();
    needAddress(uniqueId, "the address of the id");
    *uniqueId = asNccl(UniqueId::create(Options::fromEnvironment()));
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommGrow,
            (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
             ncclComm_t* newcomm, ncclConfig_t* config)) {
  return answerInGroup("ncclCommGrow", [&] {
    const Growth call{nRanks, uniqueId, rank, newcomm, config};
    return comm ? grow(comm, call) : join(call);
  });
}

} // namespace rondo::compat::nccl
