// Lent messages of the host engine: when to lend, and when lent memory may be reused.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

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

/// Whether data flow from one rank, or to one, so that one side of each message has nothing else to
/// do.
bool oneWay(Collective collective) {
  return hasRoot(collective) || collective == Collective::sendrecv;
}

bool returned(const BoundPlan::OpenLoan& loan) { return loan.end->ring->returned(loan.number); }
bool beingRead(const BoundPlan::OpenLoan& loan) { return loan.end->ring->beingRead(loan.number); }

} // namespace

/// What the receivers do with this run's messages, where one copy by the system is faster than two.
transport::Use HostEngine::useOf(const Run& run) const {
  using transport::Use;
  const Collective collective = run.plan->collective;
  if (run.plan->exchanges && !oversubscribed_ && run.input != run.output) return Use::exchange;
  // Several threads copy to and from slots faster than one copies between processes.
  if (reduces(collective) || crew_) return Use::combine;
  // Ranks that share a processor cannot share the work of a copy. The receivers of a Scatter have
  // no other work.
  if (oversubscribed_) return collective == Collective::scatter ? Use::keep : Use::combine;
  // Where all ranks send and receive, none has time to help. 2 processes, us, slots twice, to show
  // the noise, and reading: allgather of 1 MiB 264, 257 and 257, of 2 MiB 564, 551 and 625;
  // alltoall of 512 KiB 116, 115 and 100, of 1 MiB 285, 284 and 271, of 2 MiB 621, 707 and 696.
  return oneWay(collective) ? Use::one_way : Use::combine;
}

/// The loan for the step's message; empty if copying is better.
std::optional<transport::Loan> HostEngine::loanFor(const Run& run, const BoundStep& step, End& end,
                                                   std::size_t tile) const {
  if (!end.loans || step.segments.size() != 1) return {};
  const transport::Use use = useOf(run);
  if (step.bytes < end.loans->worthFrom(use)) return {};
  const plan::PieceOffsets* source = sourceOf(run, step);
  if (!source) return {};
  return end.loans->offer(at(run, *source, 0, tile), step.bytes, use);
}

/// Copies a lent body that is not mapped here: to its destination if the step only moves it there,
/// otherwise to the end's staging memory. False: the sender copies a part and has not finished, or
/// the system does not copy this memory, and the sender will copy it to its slot.
bool HostEngine::fetch(const Run& run, const BoundStep& step, End& end, std::size_t tile,
                       const transport::Loan& loan) {
  const bool direct = step.inputs.size() == 1 && step.has_output && step.segments.size() == 1;
  std::byte* const to = direct ? at(run, step.output, 0, tile) : end.staging.reserve(step.bytes);
  end.body = to;
  if (direct && !oversubscribed_ && end.loans->shared(loan)) {
    end.landing = to;
    end.ring->share(to);
    shareLater(run, step, end, tile);
    return fetchParts(end, step.bytes);
  }
  if (end.loans->read(loan, 0, to, step.bytes)) return true;
  end.ring->refuse();
  return false;
}

/// Shares the next messages of the step, too. In calls that move data one way no other step reads
/// or writes where they belong.
void HostEngine::shareLater(const Run& run, const BoundStep& step, End& end,
                            std::size_t tile) const {
  if (!oneWay(run.plan->collective)) return;
  for (std::size_t later = 1; later <= transport::kShareAhead && tile + later + 1 < step.tiles;
       ++later)
    end.ring->shareLater(later, at(run, step.output, 0, tile + later),
                         [&](const transport::Loan& loan) { return end.loans->shared(loan); });
}

/// Copies this end's parts of a body that both ends copy; true when it is complete.
bool HostEngine::fetchParts(End& end, std::size_t bytes) {
  using Parts = transport::SlotRing::Parts;
  const transport::Loan& loan = *end.ring->unmapped();
  const auto read = [&](std::size_t offset, std::size_t size) {
    if (!end.unreadable)
      end.unreadable = !end.loans->read(loan, offset, end.landing + offset, size);
  };
  while (const auto part = end.ring->nextPart(bytes)) {
    read(part->offset, part->bytes);
    moved_ = true;
  }
  const Parts theirs = end.ring->partsOfProducer();
  if (theirs == Parts::pending) return false;
  if (theirs == Parts::failed) read(0, bytes);
  end.landing = nullptr;
  if (!std::exchange(end.unreadable, false)) return true;
  end.ring->refuse();
  return false;
}

/// Copies parts of lent bodies for peers that share that work with this rank, and whole bodies to
/// their slots if a peer cannot read them. Called when no step of the rank can be done.
bool HostEngine::helpPeers(BoundPlan& plan) {
  bool moved = false;
  for (std::size_t i = 0; i < plan.loans.size();) {
    const BoundPlan::OpenLoan loan = plan.loans[i++];
    if (returned(loan)) continue;
    transport::SlotRing& ring = *loan.end->ring;
    if (ring.refused(loan.number)) {
      loan.end->loans->refused();
      ring.revoke(loan.number, loan.data, loan.bytes);
      plan.loans[--i] = plan.loans.back();
      plan.loans.pop_back();
      moved = true;
      continue;
    }
    while (const auto part = ring.takePart(loan.number, loan.bytes)) {
      const bool copied = loan.end->loans->write(loan.data + part->offset, part->to, part->bytes);
      ring.finishPart(loan.number, copied);
      moved = true;
    }
  }
  return moved;
}

/// Finds the bodies of all messages that the step receives on rings. False if one was withdrawn,
/// because the communicator is failing. If it returns false or throws, no message is taken.
bool HostEngine::takeBodies(const Run& run, const BoundStep& step, std::size_t tile) {
  std::size_t taken = 0;
  const auto giveBack = [&] {
    for (std::size_t i = 0; i < taken; ++i)
      if (End* end = step.inputs[i].wire; end && end->mapped() && !end->landing)
        end->ring->giveBack();
  };
  try {
    for (; taken < step.inputs.size(); ++taken) {
      End* end = step.inputs[taken].wire;
      if (!end || !end->mapped()) continue;
      if (!end->landing && step.inputs.size() == 1 && step.has_output && end->loans)
        end->landing = end->ring->sharedTo();
      if (end->landing) { // the step's only message
        end->body = end->landing;
        shareLater(run, step, *end, tile);
        if (fetchParts(*end, step.bytes)) continue;
        return false;
      }
      end->body = end->ring->readBody(step.bytes, end->loans);
      if (end->body) continue;
      const transport::Loan* loan = end->ring->unmapped();
      if (!loan) break;
      if (!fetch(run, step, *end, tile, *loan)) return false;
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
/// does not wait for it. A peer that is reading is not late.
bool HostEngine::settleLoans(Run& run) {
  helpPeers(*run.plan);
  auto& loans = run.plan->loans;
  const bool some = std::erase_if(loans, returned) > 0;
  if (loans.empty()) return true;
  const bool active = some || std::any_of(loans.begin(), loans.end(), beingRead);
  run.loan_looks_ = active ? 0 : run.loan_looks_ + 1;
  if (run.loan_looks_ < kPatientLooks) return false;
  std::erase_if(loans, [](const BoundPlan::OpenLoan& loan) {
    return loan.end->ring->revoke(loan.number, loan.data, loan.bytes);
  });
  return loans.empty();
}

/// Waits until the peer does not write to the destinations of shared bodies any more.
void HostEngine::endParts(End& end, base::Clock::time_point deadline) {
  while (!end.ring->endShared() && !end.loans->peerEnded() && base::Clock::now() < deadline)
    sched_yield();
  end.landing = nullptr;
  end.unreadable = false;
}

/// The run has failed, and its caller may free the memory. If a peer's thread is reading or writing
/// it, this waits for that thread. Such a thread never blocks, so the deadline passes only if
/// something stops it.
void HostEngine::endLoans(Run& run) {
  const auto deadline = base::Clock::now() + kReadingAtMost;
  for (End* end : run.plan->ends)
    if (end->mapped() && end->loans && !end->sends) endParts(*end, deadline);
  for (const BoundPlan::OpenLoan& loan : run.plan->loans) {
    const auto ended = [&] { return returned(loan) || loan.end->ring->withdraw(loan.number); };
    while (!ended() && !loan.end->loans->mayFree(loan.data, loan.bytes)) {
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
