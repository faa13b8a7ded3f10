// ncclCommGrow(): a communicator's ranks and those who join make a larger one. Its ranks agree over
// the control plane, beside their calls, and meet the others by the id that one of them passed.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compat/nccl/creation.h"
#include "compat/nccl/group.h"

namespace rondo::compat::nccl {

namespace {

using Blobs = std::vector<std::vector<std::byte>>;

/// What each rank of the communicator tells the others; sent as it stands.
struct Wish {
  ncclResult_t refused = ncclSuccess; ///< else the rank's call is wrong, and all are refused
  int ranks = 0;                      ///< of the new communicator
  int has_id = 0;
  ncclUniqueId id{};
  char why[256] = {}; ///< it is refused; ends with a zero

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

/// The id by which the ranks meet. Throws the Refusal that is the same on all of them.
ncclUniqueId agreedId(const std::vector<Wish>& wishes) {
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
  return found->id;
}

/// Tells who waits at the id, or comes there later, that the rank does not come. It is refused in
/// any case, soon.
void decline(const ncclUniqueId& id, int rank, int ranks, const Refusal& why, Options options) {
  const ErrorCode code = why.result == ncclInvalidUsage  ? ErrorCode::unsupported
                         : why.result == ncclRemoteError ? ErrorCode::aborted
                                                         : ErrorCode::invalid_argument;
  try {
    options.init_timeout = std::min(options.init_timeout, std::chrono::milliseconds(3000));
    meetingOf(id, rank, ranks).decline(Error(code, why.text), options);
  } catch (const Error&) {
    // Nobody is there: a place or an id that makes no sense.
  }
}

/// Who joins is at one of the ids that the ranks know, and counts the ranks as one of them does.
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

/// Throws, where the communicator has failed, what it failed by: who joins hears of it from the
/// ranks that know the id.
std::vector<Wish> allWishes(const Wish& own, std::future<Blobs> told, const Options& options) {
  try {
    return wishesOf(told.get());
  } catch (...) {
    declineJoiners({own}, currentRefusal(), options);
    throw;
  }
}

Communicator meet(Communicator& parent, const Wish& own, std::future<Blobs> told,
                  const Options& options) {
  const std::vector<Wish> wishes = allWishes(own, std::move(told), options);
  try {
    return Communicator::create(meetingOf(agreedId(wishes), parent.rank(), wishes[0].ranks),
                                options);
  } catch (const Refusal& refusal) {
    if (parent.rank() == 0) declineJoiners(wishes, refusal, options);
    throw;
  }
}

/// The call of a rank of the communicator, whose arguments may be wrong.
struct Growth {
  int nranks;
  const ncclUniqueId* id;
  int rank;
  ncclComm_t* newcomm;
  const ncclConfig_t* config;
};

/// Throws what is wrong with this rank's call.
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
  return configOf(call.config, parent.config);
}

/// A rank whose call is wrong takes part in the agreement all the same, or the others would wait.
ncclResult_t grow(ncclComm_t comm, const Growth& call) {
  if (call.newcomm) *call.newcomm = nullptr;
  const auto parent = ncclComm::known(comm).member();
  Config values = parent->config;
  Wish own{.ranks = call.nranks, .has_id = call.id != nullptr};
  if (call.id) own.id = *call.id;
  Options options;
  try {
    options = optionsOfThread(); // here: the program may change its environment later
    options.device = parent->device;
    values = checked(call, comm, *parent);
  } catch (...) {
    own.refuse(currentRefusal());
  }
  auto told = parent->comm.exchangeAsync(std::as_bytes(std::span(&own, 1)));
  auto grown =
      std::async(std::launch::async, [parent, own, options, told = std::move(told)]() mutable {
        return meet(parent->comm, own, std::move(told), options);
      });
  ncclComm_t nowhere = nullptr;
  const ncclResult_t result =
      handOut(std::move(grown), values, parent->device, call.newcomm ? call.newcomm : &nowhere);
  // Nobody has the handle that would tell.
  if (!call.newcomm) refuse(own.refused, own.why);
  return result;
}

/// Of a rank that has no communicator yet.
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
  return answer("ncclCommGrow", [&] {
    const Growth call{nRanks, uniqueId, rank, newcomm, config};
    return comm ? grow(comm, call) : join(call);
  });
}

} // namespace rondo::compat::nccl
