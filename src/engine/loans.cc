// Lent messages of the host engine: when to lend, and when lent memory may be reused.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/log.h"
#include "engine/host_engine.h"

namespace rondo::engine {

namespace {

constexpr std::size_t kManyLoans = 32;

/// About 20 us: much longer than an active peer takes to read a slot, much shorter than the wait
/// for a peer that is delayed.
constexpr std::uint32_t kPatientLooks = 500;

/// Much longer than any pass over memory takes, even on a machine that pauses at times.
constexpr std::chrono::seconds kReadingAtMost{5};

bool returned(const BoundPlan::OpenLoan& loan) { return loan.end->ring->returned(loan.number); }

} // namespace

/// The loan for the step's message; empty if copying is better.
std::optional<transport::Loan> HostEngine::loanFor(const Run& run, const BoundStep& step, End& end,
                                                   std::size_t tile) const {
  if (!end.loans || step.segments.size() != 1) return {};
  const bool exchange = run.plan->exchanges && !oversubscribed_ && run.input != run.output;
  if (step.bytes < end.loans->worthFrom(exchange)) return {};
  const plan::PieceOffsets* source = sourceOf(run, step);
  if (!source) return {};
  return end.loans->offer(at(run, *source, 0, tile), step.bytes);
}

/// Finds the bodies of all messages that the step receives on rings. False if one was withdrawn,
/// because the communicator is failing. If it returns false or throws, no message is taken.
bool HostEngine::takeBodies(const BoundStep& step) {
  std::size_t taken = 0;
  const auto giveBack = [&] {
    for (std::size_t i = 0; i < taken; ++i)
      if (End* end = step.inputs[i].wire; end && end->mapped()) end->ring->giveBack();
  };
  try {
    for (; taken < step.inputs.size(); ++taken) {
      End* end = step.inputs[taken].wire;
      if (!end || !end->mapped()) continue;
      end->body = end->ring->readBody(step.bytes, end->loans);
      if (!end->body) break;
    }
  } catch (...) {
    ++taken; // the message whose body could not be found
    giveBack();
    throw;
  }
  if (taken == step.inputs.size()) return true;
  giveBack();
  return false;
}

/// Whether no peer reads the memory that the step writes. Revokes loans that no peer has begun to
/// read, so this waits at most for a peer's step in progress.
bool HostEngine::reclaim(Run& run, const BoundStep& step, std::size_t tile) {
  if (!step.has_output) return true;
  auto& loans = run.plan->loans;
  const std::size_t element = sizeOf(run.plan->shape.type);
  for (std::size_t s = 0; s < step.segments.size(); ++s) {
    const std::byte* from = at(run, step.output, s, tile);
    const std::byte* to = from + step.segments[s].count * element;
    for (std::size_t i = 0; i < loans.size();) {
      BoundPlan::OpenLoan& loan = loans[i];
      const bool apart = loan.data >= to || from >= loan.data + loan.bytes;
      if (apart) {
        ++i;
        continue;
      }
      if (!returned(loan) && !loan.end->ring->revoke(loan.number, loan.data, loan.bytes))
        return false;
      loan = loans.back();
      loans.pop_back();
    }
  }
  return true;
}

/// Adds a loan and drops returned ones, so the list stays short: a channel has at most `depth` open
/// loans.
void HostEngine::note(BoundPlan& plan, const BoundPlan::OpenLoan& loan) {
  if (plan.loans.size() >= kManyLoans) std::erase_if(plan.loans, returned);
  plan.loans.push_back(loan);
}

/// At the end of a run: whether all loans are returned. A late peer gets a copy, so that the run
/// does not wait for it.
bool HostEngine::settleLoans(Run& run) {
  auto& loans = run.plan->loans;
  const bool late = ++run.loan_looks_ >= kPatientLooks;
  std::erase_if(loans, [late](const BoundPlan::OpenLoan& loan) {
    return returned(loan) || (late && loan.end->ring->revoke(loan.number, loan.data, loan.bytes));
  });
  return loans.empty();
}

/// The run has failed, and its caller may free the memory. If a peer's thread is reading it, this
/// waits for that thread. A reading thread never blocks, so the deadline passes only if something
/// stops that thread.
void HostEngine::endLoans(Run& run) {
  const auto deadline = base::Clock::now() + kReadingAtMost;
  for (const BoundPlan::OpenLoan& loan : run.plan->loans) {
    const auto ended = [&] { return returned(loan) || loan.end->ring->withdraw(loan.number); };
    while (!ended() && !loan.end->loans->outliveSender()) {
      if (base::Clock::now() >= deadline) {
        base::log(LogLevel::warn, "rank ", loan.end->peer, " did not read ", loan.bytes,
                  " lent bytes to the end within ", kReadingAtMost.count(),
                  " s: the wait for it was given up");
        break;
      }
      sched_yield();
    }
  }
  run.plan->loans.clear();
}

} // namespace rondo::engine
