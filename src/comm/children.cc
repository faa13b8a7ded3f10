// Makes communicators of the ranks of another one: split, grow, shrink. And exchanges the data that
// ranks agree on between calls.
#include <algorithm>
#include <mutex>

#include "base/clock.h"
#include "comm/communicator_impl.h"
#include "comm/grow.h"
#include "rondo/error.h"

namespace rondo::comm {

std::shared_ptr<CommunicatorImpl> CommunicatorImpl::openChild(
    std::unique_ptr<bootstrap::Session> session, bool shrunk) {
  if (!session) return nullptr;
  Options options;
  {
    const ProgressLoop::Lock lock(progress_loop_);
    options = options_;
  }
  const std::vector<int> members = session->members();
  try {
    auto child = open(std::move(session), options, {trace_, planner_.rulesFile()});
    if (shrunk) child->session_->finishOpening(options.init_timeout);
    return child;
  } catch (const Error& error) {
    // The caller has only the numbers of this communicator.
    const auto culprit = static_cast<std::size_t>(error.culprit());
    if (error.culprit() < 0 || culprit >= members.size()) throw;
    const std::vector<int> own = session_->members();
    const auto here = std::find(own.begin(), own.end(), members[culprit]);
    if (here == own.end()) throw;
    const auto rank = static_cast<int>(here - own.begin());
    const std::string which = rank == error.culprit()
                                  ? ""
                                  : " (rank " + std::to_string(error.culprit()) +
                                        " of the new communicator is rank " + std::to_string(rank) +
                                        " of this one)";
    throw Error(error.code(), error.what() + which, rank);
  }
}

template <class Body>
auto CommunicatorImpl::inTurn(std::uint64_t turn, const Body& body) {
  try {
    turns_.await(turn, (kGrowSteps + 3) * options_.init_timeout);
  } catch (const Error& late) {
    // The other ranks may have had this turn: no later one would fit theirs.
    session_->fail({late.code(), late.what(), rank_});
    throw;
  }
  struct Turn {
    ControlTurns& turns;
    ~Turn() { turns.end(); }
  } const own{turns_};
  {
    const ProgressLoop::Lock lock(progress_loop_);
    failure_.throwIfEnded();
  }
  return body();
}

std::shared_ptr<CommunicatorImpl> CommunicatorImpl::split(int color, int key, std::uint64_t turn) {
  return inTurn(
      turn, [&] { return openChild(session_->split(color, key, options_.init_timeout), false); });
}

std::vector<std::vector<std::byte>> CommunicatorImpl::exchange(std::span<const std::byte> own,
                                                               std::uint64_t turn) {
  return inTurn(turn, [&] { return session_->allGather(own, options_.init_timeout); });
}

std::shared_ptr<CommunicatorImpl> CommunicatorImpl::grow(int newcomers,
                                                         const std::optional<UniqueId>& id,
                                                         std::uint64_t turn) {
  Options options;
  {
    const ProgressLoop::Lock lock(progress_loop_);
    options = options_;
  }
  return inTurn(turn, [&] {
    return openGrown(*session_, {newcomers, id}, options, planner_.rulesFile());
  });
}

std::unique_ptr<bootstrap::Session> CommunicatorImpl::shrink(std::span<const int> excluded) {
  std::vector<bool> stay(static_cast<std::size_t>(size_), true);
  for (const int rank : excluded) {
    if (rank < 0 || rank >= size_ || rank == rank_)
      throw Error(ErrorCode::invalid_argument,
                  "shrink: rank " + std::to_string(rank) + " cannot be left out: " +
                      (rank == rank_ ? "it is the calling rank"
                                     : "ranks are 0 to " + std::to_string(size_ - 1)));
    stay[static_cast<std::size_t>(rank)] = false;
  }
  return session_->shrink(stay);
}

std::shared_ptr<CommunicatorImpl> CommunicatorImpl::shrink() {
  const std::lock_guard agreeing(shrinking_);
  const base::Deadline limit(options_.init_timeout);
  for (;;) {
    auto session = session_->survivors(std::max(
        std::chrono::ceil<std::chrono::milliseconds>(limit.left()), std::chrono::milliseconds(1)));
    try {
      return openChild(std::move(session), true);
    } catch (const Error& error) {
      // A rank died before all ranks had the communicator: all get here, and agree again.
      const bool died = error.code() == ErrorCode::peer_dead ||
                        error.code() == ErrorCode::unresponsive ||
                        error.code() == ErrorCode::transport;
      if (!died || limit.passed()) throw;
    }
  }
}

} // namespace rondo::comm
