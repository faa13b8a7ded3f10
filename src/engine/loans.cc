// Lent messages: what peers read in this rank's memory, and what that memory may be used for.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/log.h"
#include "engine/host_engine.h"

namespace rondo::engine {

namespace {

constexpr std::size_t kManyLoans = 32;

/// About 20 us: much longer than a peer that is there takes to read a slot's worth, much shorter
/// than what waiting for one that is not there may cost.
constexpr std::uint32_t kPatientLooks = 500;

/// Much longer than any pass over memory takes, on a machine that stands still at times too.
constexpr std::chrono::seconds kReadingAtMost{5};

bool returned(const BoundPlan::OpenLoan& loan) { return loan.end->ring->returned(loan.number); }

} // namespace

/// How the receiver reads the step's message in place; nothing when it is better copied.
std::optional<transport::Loan> HostEngine::loanFor(const Run& run, const BoundStep& step, End& end,
                                                   std::size_t tile) const {
  if (!end.loans || step.segments.size() != 1) return {};
  const bool exchange = run.plan->exchanges && !oversubscribed_ && run.input != run.output;
  if (step.bytes < end.loans->worthFrom(exchange)) return {};
  const plan::PieceOffsets* source = sourceOf(run, step);
  if (!source) return {};
  return end.loans->offer(at(run, *source, 0, tile), step.bytes);
}

/// Finds the bodies of all messages that the step receives on rings; false, with nothing taken,
/// when one was withdrawn: the communicator is failing. Nothing is taken either when it throws.
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

/// Whether no peer reads what the step writes. Loans that nobody has begun to read are revoked, so
/// this never waits for more than a peer's step in progress.
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

/// Keeps the list short: a channel has at most its depth of them open.
void HostEngine::note(BoundPlan& plan, const BoundPlan::OpenLoan& loan) {
  if (plan.loans.size() >= kManyLoans) std::erase_if(plan.loans, returned);
  plan.loans.push_back(loan);
}

/// At the end of a run: whether all loans are settled. A peer that comes late gets a copy, so that
/// nobody waits for it.
bool HostEngine::settleLoans(Run& run) {
  auto& loans = run.plan->loans;
  const bool late = ++run.loan_looks_ >= kPatientLooks;
  std::erase_if(loans, [late](const BoundPlan::OpenLoan& loan) {
    return returned(loan) || (late && loan.end->ring->revoke(loan.number, loan.data, loan.bytes));
  });
  return loans.empty();
}

/// The run has failed, and its caller may free the memory. Where that would take it from a thread
/// in the midst of reading, this waits for the thread: it waits for nothing itself, so the deadline
/// only passes when somebody holds it.
void HostEngine::endLoans(Run& run) {
  const auto deadline = base::Clock::now() + kReadingAtMost;
  for (const BoundPlan::OpenLoan& loan : run.plan->loans) {
    const auto ended = [&] { return returned(loan) || loan.end->ring->withdraw(loan.number); };
    while (!ended() && !loan.end->loans->outliveSender()) {
      if (base::Clock::now() >= deadline) {
        base::log(LogLevel::warn, "rank ", loan.end->peer, " has not read ", loan.bytes,
                  " lent bytes to their end within ", kReadingAtMost.count(),
                  " s: no longer waited for");
        break;
      }
      sched_yield();
    }
  }
  run.plan->loans.clear();
}

} // namespace rondo::engine
