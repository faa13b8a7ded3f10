// Turns failures into error texts, and passes them to the control plane and to the calls.
#include "comm/failure_state.h"

#include <algorithm>

#include "base/awake.h"
#include "base/log.h"
#include "comm/backoff.h"
#include "comm/call.h"

namespace rondo::comm {

namespace {

bootstrap::Stall stallOf(const engine::Run& run, const engine::Position& position) {
  return {run.sequence, position.peer, FailureState::titleOf(run) + ": " + position.text,
          run.told > base::Clock::duration{} && position.at_once};
}

} // namespace

std::string FailureState::titleOf(const engine::Run& run) {
  return describe(run.signature, run.sequence ? run.sequence : run.signature >> 32 & 0xff);
}

bool FailureState::heed() {
  if (spared()) return false;
  const bootstrap::Failure failure = session_.failure();
  if (patient_ && !patience_ended_.load(std::memory_order_relaxed) &&
      failure.code == ErrorCode::peer_dead) {
    death_heard_ = base::Clock::now();
    spared_.store(true, std::memory_order_relaxed);
    return false;
  }
  endCalls(failure);
  return true;
}

void FailureState::failWithCurrentException() {
  try {
    throw;
  } catch (const engine::ForeignCall& foreign) {
    const std::uint64_t near = foreign.ours >> 32 & 0xff;
    const std::uint64_t sequence = foreign.sequence ? foreign.sequence : near;
    breakDown({ErrorCode::mismatch,
               "rank " + std::to_string(foreign.peer) + " calls " +
                   describe(foreign.theirs, sequence) + " where rank " +
                   std::to_string(session_.rank()) + " calls " + describe(foreign.ours, sequence),
               foreign.peer});
  } catch (const engine::Late& late) {
    endLate(late.run, late.position, timeout_);
  } catch (const Error& error) {
    fail(titleOf(*engine_.current()), error);
  } catch (const std::exception& error) {
    // Runs lie on their callers' stacks, so no exception may leave through this function.
    failLocally(titleOf(*engine_.current()), error.what());
  }
}

void FailureState::fail(const std::string& title, const Error& error) {
  if (error.code() == ErrorCode::system && error.culprit() < 0) failLocally(title, error.what());
  else breakDown({error.code(), title + ": " + error.what(), error.culprit()});
}

void FailureState::failLocally(const std::string& title, const std::string& what) {
  const int rank = session_.rank();
  breakDown({ErrorCode::system, title + ": rank " + std::to_string(rank) + ": " + what, rank});
}

void FailureState::leave() {
  const engine::Run* const first = engine_.findRun([](const engine::Run&) { return true; });
  const int rank = session_.rank();
  breakDown({ErrorCode::timeout,
             "rank " + std::to_string(rank) + " closed the communicator while " + titleOf(*first) +
                 " was in flight, which timed out after " + base::text(timeout_),
             rank});
}

void FailureState::inspect(base::Clock::time_point now) {
  const auto least = std::min<base::Clock::duration>(Patience::kStall, timeout_);
  const bool spared = this->spared();
  const auto limit = std::min<base::Clock::duration>(
      timeout_, spared ? base::Clock::duration(Patience::kBereaved) : timeout_);
  const std::vector<engine::Standing> all = engine_.standing(now, least);
  record(all);
  for (const engine::Standing& standing : all) {
    const auto since = std::min(standing.since, now - woke_);
    const bool late = since >= limit && (!spared || now - death_heard_ >= limit);
    engine::Run& run = *standing.run;
    const bool told = run.told > base::Clock::duration{};
    const bool tell =
        !told || (run.sequence == 0 && standing.since - run.told >= Patience::kStallAgain);
    if (!tell && !late) continue;
    const engine::Position position = engine_.position(run);
    if (tell) session_.stalled(stallOf(run, position)), run.told = standing.since;
    if (!late) continue;
    return spared ? endCalls(session_.failure()) : endLate(run, position, standing.since);
  }
}

/// Collectives come first: there is room for few waits.
void FailureState::record(const std::vector<engine::Standing>& all) {
  recorder_.look();
  for (const bool collective : {true, false})
    for (const engine::Standing& standing : all) {
      const engine::Run& run = *standing.run;
      if ((run.sequence != 0) != collective) continue;
      const engine::Position position = engine_.position(run);
      recorder_.waits(run.recorded, position.peer, position.text,
                      static_cast<std::uint64_t>(standing.since.count()));
    }
  recorder_.looked();
}

/// The text starts with the call, followed by what only this rank knows. The control plane adds the
/// ranks that did not enter the call.
void FailureState::endLate(const engine::Run& run, const engine::Position& position,
                           base::Clock::duration since) {
  const std::string self = "rank " + std::to_string(session_.rank());
  std::string text = titleOf(run) + " timed out after " + base::text(since);
  if (run.sequence == 0 && position.peer >= 0)
    text += ": " + self + " waited for rank " + std::to_string(position.peer);
  if (!position.text.empty()) text += "; " + self + ": " + position.text;
  breakDown({ErrorCode::timeout, text, position.peer}, stallOf(run, position));
}

void FailureState::breakDown(const bootstrap::Failure& failure,
                             const std::optional<bootstrap::Stall>& stall) {
  endCalls(session_.fail(failure, stall));
}

void FailureState::endCalls(const bootstrap::Failure& failure) {
  error_.emplace(failure.error());
  base::log(LogLevel::info, "communicator failed: ", failure.text);
  engine_.failAll(*error_);
}

} // namespace rondo::comm
