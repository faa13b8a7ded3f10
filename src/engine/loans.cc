// Lent messages: what peers read in this rank's memory, and what that memory may be used for.
#include <sched.h>

#include <algorithm>

#include "engine/host_engine.h"

namespace rondo::engine {

namespace {

constexpr std::size_t kManyLoans = 32;

/// About 20 us: much longer than a peer that is there takes to read a slot's worth, much shorter
/// than what waiting for one that is not there may cost.
constexpr std::uint32_t kPatientLooks = 500;

bool returned(const BoundPlan::OpenLoan& loan) { return loan.end->ring->returned(loan.number); }

} // namespace

/// How the receiver reads the step's message in place; nothing when it is better copied.
std::optional<transport::Loan> HostEngine::loanFor(const Run& run, const BoundStep& step, End& end,
                                                   std::size_t tile) const {
  if (!end.loans || step.segments.size() != 1) return {};
  const bool exchange = run.plan->exchanges && !crowded_ && run.input != run.output;
  if (step.bytes < end.loans->worthFrom(exchange)) return {};
  const plan::PieceOffsets* source = sourceOf(run, step);
  if (!source) return {};
  return end.loans->offer(at(run, *source, 0, tile), step.bytes);
}

/// Finds the bodies of all messages that the step receives on rings; false, with nothing taken,
/// when one was withdrawn: the communicator is failing.
bool HostEngine::takeBodies(const BoundStep& step) {
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    End* end = step.inputs[i].wire;
    if (!end || !end->mapped()) continue;
    end->body = end->ring->readBody(step.bytes, end->loans);
    if (end->body) continue;
    while (i-- > 0)
      if (End* taken = step.inputs[i].wire; taken && taken->mapped()) taken->ring->giveBack();
    return false;
  }
  return true;
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

/// The run has failed, and its caller may free the memory.
void HostEngine::endLoans(Run& run) {
  for (const BoundPlan::OpenLoan& loan : run.plan->loans) {
    const auto ended = [&] { return returned(loan) || loan.end->ring->withdraw(loan.number); };
    // Else a thread is in the midst of reading, which waits for nothing.
    while (!ended() && !loan.end->loans->outliveSender()) sched_yield();
  }
  run.plan->loans.clear();
}

} // namespace rondo::engine
