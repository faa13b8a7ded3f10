// grow(), in three steps: the old ranks compare their arguments; all ranks, old and new, meet at
// the id; the old ranks tell each other whether they have the new communicator, so that all or none
// of them return it. Steps one and three use the control plane of the old communicator.
#include "comm/grow.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/codec.h"
#include "base/random.h"
#include "bootstrap/hub.h"
#include "bootstrap/unique_id.h"
#include "comm/communicator_impl.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

constexpr std::size_t kMostText = 4096;

using Blobs = std::vector<std::vector<std::byte>>;

std::vector<std::byte> encode(const Growth& growth, const net::Secret& secret) {
  base::Writer out;
  out.i32(growth.newcomers);
  out.u8(growth.id ? 1 : 0);
  if (!growth.id) return out.take();
  bootstrap::IdNonce nonce;
  base::randomBytes(nonce);
  out.raw(nonce);
  out.raw(bootstrap::masked(*growth.id, secret, nonce).bytes);
  return out.take();
}

Growth decode(const std::vector<std::byte>& bytes, const net::Secret& secret) {
  base::Reader in(bytes, "a rank's arguments of grow()");
  Growth growth;
  growth.newcomers = in.i32();
  if (in.u8() != 0) {
    bootstrap::IdNonce nonce;
    UniqueId id;
    in.raw(nonce);
    in.raw(id.bytes);
    growth.id = bootstrap::masked(id, secret, nonce);
  }
  in.finish();
  return growth;
}

/// What all ranks asked for. Throws Error(invalid_argument), the same on all ranks.
Growth agreed(const Blobs& blobs, const net::Secret& secret) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "grow: " + why);
  };
  const auto name = [](std::size_t rank) { return "rank " + std::to_string(rank); };
  Growth all;
  std::size_t giver = 0;
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    const Growth one = decode(blobs[rank], secret);
    if (rank == 0) all.newcomers = one.newcomers;
    if (one.newcomers != all.newcomers)
      refuse("rank 0 asks for " + std::to_string(all.newcomers) + " new ranks, " + name(rank) +
             " for " + std::to_string(one.newcomers));
    if (!one.id) continue;
    if (all.id && all.id->bytes != one.id->bytes)
      refuse(name(giver) + " and " + name(rank) + " pass different ids");
    if (!all.id) giver = rank;
    all.id = one.id;
  }
  const int most = bootstrap::Hub::kMostRanks - static_cast<int>(blobs.size());
  if (all.newcomers < 1 || all.newcomers > most)
    refuse(std::to_string(all.newcomers) + " new ranks: must be 1 to " + std::to_string(most));
  if (!all.id) refuse("no rank passes an id");
  return all;
}

/// How the second step ended on one rank.
struct Outcome {
  std::optional<Error> error = {};

  std::vector<std::byte> encode() const {
    base::Writer out;
    out.u8(error ? 1 : 0);
    if (!error) return out.take();
    out.u8(static_cast<std::uint8_t>(error->code()));
    out.i32(error->culprit());
    out.text(std::string(error->what()).substr(0, kMostText));
    return out.take();
  }
  static Outcome decode(const std::vector<std::byte>& bytes) {
    base::Reader in(bytes, "a rank's outcome of grow()");
    if (in.u8() == 0) return {};
    const auto code = static_cast<ErrorCode>(in.u8());
    const int culprit = in.i32();
    return {Error(code, in.text(kMostText), culprit)};
  }
};

} // namespace

std::shared_ptr<CommunicatorImpl> openGrown(bootstrap::Session& old, const Growth& own,
                                            const Options& options,
                                            std::shared_ptr<const planner::RulesFile> rules) {
  const Growth all =
      agreed(old.allGather(encode(own, old.secret()), options.init_timeout), old.secret());
  std::shared_ptr<CommunicatorImpl> grown;
  Outcome outcome;
  try {
    const int size = old.size() + all.newcomers;
    grown = CommunicatorImpl::open(
        bootstrap::Session::grow(*all.id, old.rank(), old.size(), size, options), options,
        {.trace = {}, .rules = std::move(rules)});
  } catch (const Error& error) {
    outcome.error = error;
  } catch (const std::exception& error) {
    outcome.error = Error(ErrorCode::system, error.what());
  }
  // The newcomers learn by it that nobody waits for their calls.
  const auto drop = [&grown](const std::string& why) {
    if (grown) grown->abort("the others could not grow: " + why);
  };
  try {
    for (const auto& blob : old.allGather(outcome.encode(), kGrowSteps * options.init_timeout))
      if (const Outcome one = Outcome::decode(blob); one.error && !outcome.error) outcome = one;
  } catch (const Error& error) {
    drop(error.what());
    throw;
  }
  if (outcome.error) {
    drop(outcome.error->what());
    throw Error(*outcome.error);
  }
  return grown;
}

} // namespace rondo::comm
