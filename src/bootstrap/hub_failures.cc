// Decides about failures: calls that differ, and ranks that are late, silent, deaf or dead.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/hub_impl.h"
#include "bootstrap/limits.h"

namespace rondo::bootstrap {

namespace {

using base::Clock;

/// Interval between questions to ranks that had not entered the call.
constexpr std::chrono::milliseconds kAskAgain{5};

} // namespace

Hub::Impl::Cause Hub::Impl::deathOf() {
  return {ErrorCode::peer_dead, "died: its process ended or its connection broke"};
}

Hub::Impl::Cause Hub::Impl::silenceOf(const Member& member) {
  return {ErrorCode::unresponsive,
          "does not respond: no heartbeat for " +
              std::to_string(silenceLimit(member.heartbeat).count()) +
              " ms (it is stopped, its machine is overloaded, or the network loses "
              "its messages)"};
}

Failure Hub::Impl::failureOf(int rank, const Cause& cause) {
  return {cause.code, "rank " + std::to_string(rank) + " " + cause.text, rank};
}

void Hub::Impl::fail(World& world, Member& member, const frames::Fail& report) {
  const auto group = groupOf(world, member, report.communicator);
  if (!group || group->ledger.failure()) return;
  const int rank = group->rank_of[member.rank];
  const Failure& failure = report.failure;
  const bool call_late = failure.code == ErrorCode::timeout && report.stall;
  if (report.round) {
    failGroup(world, *group, group->ledger.completeRound(failure, *report.round));
  } else if (call_late || failure.code == ErrorCode::mismatch) {
    inquire(world, *group, Suspicion{failure, rank, report.stall}, 0);
  } else if (failure.code == ErrorCode::peer_dead || failure.code == ErrorCode::transport ||
             failure.code == ErrorCode::unresponsive) {
    accuse(world, *group, rank, failure);
  } else {
    failGroup(world, *group, failure);
  }
}

void Hub::Impl::stalled(World& world, Member& member, const frames::Stalled& report) {
  const auto group = groupOf(world, member, report.communicator);
  if (!group || group->ledger.failure()) return;
  if (const auto cause = group->ledger.stalled(group->rank_of[member.rank], report.stall))
    failGroup(world, *group, *cause);
}

// Inquiries ---------------------------------------------------------------------------------------

void Hub::Impl::inquire(World& world, Group& group, const std::optional<Suspicion>& suspicion,
                        std::uint64_t target) {
  if (group.inquiry) {
    if (!group.inquiry->suspicion) group.inquiry->suspicion = suspicion;
    group.inquiry->target = std::max(group.inquiry->target, target);
    return;
  }
  group.inquiry.emplace();
  group.inquiry->suspicion = suspicion;
  group.inquiry->target = target;
  group.inquiry->limit =
      later(suspicion ? kAskLimit : kLeaveLimit, world, group, &Impl::inquiryOver);
  ask(world, group);
}

void Hub::Impl::ask(World& world, Group& group) {
  if (!group.inquiry) return;
  group.inquiry->ask = ++asks_;
  for (const int rank : group.members) {
    const auto member = world.members.find(rank);
    if (member == world.members.end() || !member->second->reachable()) continue;
    if (group.ledger.hasLeft(group.rank_of[rank])) continue;
    group.inquiry->awaited.insert(rank);
    member->second->link->send(Type::ask, frames::Ask{asks_, group.id});
  }
}

void Hub::Impl::inquiryOver(World& world, Group& group) {
  if (!group.inquiry) return;
  group.inquiry->over = true;
  conclude(world, group);
}

void Hub::Impl::answered(World& world, const Member& member, const frames::ProgressReport& report) {
  const auto groups = world.groups; // a copy, because what is called may change the map
  for (const auto& [id, group] : groups) {
    if (group->accusation && group->accusation->ask == report.answer_to) {
      group->accusation->answered = true;
      decideAccusation(world, *group);
    }
    if (!group->inquiry || group->inquiry->ask != report.answer_to) continue;
    group->inquiry->awaited.erase(member.rank);
    if (group->inquiry->awaited.empty()) conclude(world, *group);
  }
}

void Hub::Impl::conclude(World& world, Group& group) {
  if (!group.inquiry) return;
  const auto different = group.ledger.different();
  // The majority is more reliable when all ranks have entered the call, and a leaving rank waits
  // for the result.
  if (different) group.inquiry->target = different->difference->first;
  if (!group.inquiry->over && !group.ledger.failure() &&
      group.ledger.anyBehind(group.inquiry->target)) {
    group.inquiry->again = later(kAskAgain, world, group, &Impl::ask);
    return;
  }
  const auto suspicion = group.inquiry->suspicion;
  dropInquiry(group);
  if (!group.ledger.failure()) {
    if (different) failGroup(world, group, *different);
    else if (suspicion)
      failGroup(
          world, group,
          group.ledger.completeTimeout(suspicion->failure, suspicion->reporter, suspicion->stall));
  }
  answerLeaving(world, group);
}

// Accusations -------------------------------------------------------------------------------------

void Hub::Impl::accuse(World& world, Group& group, int accuser, const Failure& failure) {
  const int accused = failure.culprit;
  if (accused < 0 || accused >= group.ledger.size() || accused == accuser ||
      group.ledger.hasLeft(accused))
    return failGroup(world, group, failure);
  if (group.accusation) return; // the first accusation counts
  group.accusation = Group::Accusation{accuser, failure, 0};
  const auto member = world.members.find(group.members[static_cast<std::size_t>(accused)]);
  const bool asks = failure.code == ErrorCode::unresponsive && member != world.members.end() &&
                    member->second->reachable();
  group.accusation->timer =
      later(asks ? kAnswerLimit : kDeathLimit, world, group, &Impl::decideAccusation);
  if (!asks) return;
  group.accusation->ask = ++asks_;
  member->second->link->send(Type::ask, frames::Ask{asks_, group.id});
}

void Hub::Impl::decideAccusation(World& world, Group& group) {
  if (!group.accusation) return;
  const Group::Accusation accusation = *std::exchange(group.accusation, {});
  loop_->cancel(accusation.timer);
  const int accused = group.members[static_cast<std::size_t>(accusation.failure.culprit)];
  const auto member = world.members.find(accused);
  // If the accused rank has not connected to this hub yet, the accuser knows best.
  const bool silent = accusation.ask != 0 && !accusation.answered;
  const bool lives = !accusation.hasLeft(group.ledger) && member != world.members.end() &&
                     member->second->reachable() && !silent;
  failGroup(
      world, group,
      lives ? Ledger::brokenLink(accusation.accuser, accusation.failure) : accusation.failure);
}

// Failures of members -----------------------------------------------------------------------------

void Hub::Impl::ended(int rank) {
  loop_->after(kLastWords, [weak = weak_from_this(), rank] {
    const auto self = weak.lock();
    if (!self) return;
    self->ended_.insert(rank);
    for (auto& [size, world] : self->worlds_) self->failForEnded(world);
    std::vector<int> sizes; // losing a rank may change the worlds
    for (const auto& [size, world] : self->worlds_)
      if (world.members.contains(rank)) sizes.push_back(size);
    for (const int size : sizes) {
      self->lost(size, rank, "its process has ended");
      self->rankEnded(self->worlds_.at(size), rank);
    }
  });
}

void Hub::Impl::failForEnded(World& world) {
  if (world.complete) return;
  for (const int rank : ended_)
    if (rank < world.size && !world.members.contains(rank))
      failGroup(
          world, *world.root,
          {ErrorCode::init_failed,
           "rank " + std::to_string(rank) + " did not join the rendezvous: its process has ended",
           rank});
}

void Hub::Impl::lost(int size, int rank, const std::string& why) {
  const auto found = worlds_.find(size);
  if (found == worlds_.end() || stopped_) return;
  World& world = found->second;
  Member& member = *world.members.at(rank);
  if (member.gone) return;
  // This process is alive, so its own rank has left; it may not have said so if it was still on its
  // way here.
  if (rank == welcome_.host) {
    if (world.awaited.contains(rank)) settled(world, rank);
    return bye(world, member);
  }
  member.gone = true;
  member.link->close();
  base::log(LogLevel::info, "rank ", rank, " of ", size, " is lost: ", why);
  noticeStop();
  if (world.complete && !member.patient && member.heard < awake_beat_) mayHaveMoved(world, rank);
  if (!world.complete) {
    std::vector<int> absent;
    for (int r = 0; r < size; ++r)
      if (!world.members.contains(r)) absent.push_back(r);
    std::string text = "rank " + std::to_string(rank) + " died during the rendezvous";
    if (!absent.empty()) text += "; " + rankList(absent) + " had not joined yet";
    failGroup(world, *world.root, {ErrorCode::init_failed, text, rank});
  }
  const bool asks = world.complete && world.standbys.contains(rank) && !world.gone.contains(rank);
  // First, so that nothing is decided before the answers.
  askAgain(world);
  dropProbe(world, rank); // an answer to an earlier question proves nothing
  if (asks) probe(world, rank);
  failRank(world, rank, deathOf(), true);
  if (world.awaited.contains(rank)) settled(world, rank);
  if (!asks) rankEnded(world, rank);
  if (offered_.erase(rank) > 0) offer(rank);
  endIfAllGone(world);
}

void Hub::Impl::lostFor(int version, int size, int rank) {
  const std::string text = "rank " + std::to_string(rank) + " " +
                           differentVersions(version, "the host of the control plane");
  if (const auto found = worlds_.find(size); found != worlds_.end() && !stopped_)
    failGroup(found->second, *found->second.root, {ErrorCode::init_failed, text, rank});
  lost(size, rank, text);
}

void Hub::Impl::failRank(World& world, int rank, const Cause& cause, bool leaves) {
  if (world.awaited.contains(rank)) failed_coming_.try_emplace(rank, cause);
  const auto groups = world.groups;
  for (const auto& [id, group] : groups) {
    const auto found = group->rank_of.find(rank);
    if (found == group->rank_of.end() || group->ledger.hasLeft(found->second)) continue;
    failGroup(world, *group, failureOf(found->second, cause));
    if (leaves) leaveGroup(world, *group, found->second);
  }
}

void Hub::Impl::blameHost(World& world, const Member& deaf) {
  const auto groups = world.groups;
  for (const auto& [id, group] : groups) {
    const auto found = group->rank_of.find(deaf.rank);
    if (found == group->rank_of.end() || group->ledger.hasLeft(found->second)) continue;
    const auto host = group->rank_of.find(welcome_.host);
    const int culprit = host == group->rank_of.end() ? -1 : host->second;
    failGroup(world, *group,
              Ledger::unheardHost(hostName(culprit, welcome_.host), culprit, found->second,
                                  silenceLimit(deaf.heartbeat)));
  }
}

void Hub::Impl::failSplitsOfDeadRanks(World& world) {
  for (const auto& [rank, member] : world.members) {
    if (member->gone) failRank(world, rank, deathOf(), true);
    else if (member->patient) continue;
    else if (member->silent) failRank(world, rank, silenceOf(*member), false);
    else if (member->deaf) blameHost(world, *member);
  }
}

void Hub::Impl::failGroup(World& world, Group& group, const Failure& failure) {
  if (!group.ledger.fail(failure)) return;
  dropTimers(group);
  base::log(LogLevel::info, "a communicator of ", group.members.size(),
            " ranks failed: ", group.ledger.failure()->text);
  // A new hub without its majority says nothing yet. endOpening() first sends missing results of
  // exchanges, and then this failure.
  if (!claims_)
    toAll(world, group, Type::failed, frames::Failed{group.id, *group.ledger.failure()});
  answerLeaving(world, group);
}

void Hub::Impl::dropTimers(Group& group) {
  dropInquiry(group);
  if (group.accusation) loop_->cancel(group.accusation->timer);
  group.accusation.reset();
}

void Hub::Impl::dropInquiry(Group& group) {
  if (!group.inquiry) return;
  loop_->cancel(group.inquiry->limit);
  loop_->cancel(group.inquiry->again);
  group.inquiry.reset();
}

net::EventLoop::Id Hub::Impl::later(std::chrono::milliseconds delay, const World& world,
                                    const Group& group, void (Impl::*run)(World&, Group&)) {
  return loop_->after(delay, [weak = weak_from_this(), size = world.size, id = group.id, run] {
    const auto self = weak.lock();
    if (!self || self->stopped_) return;
    World& in = self->worlds_.at(size);
    if (const auto found = in.groups.find(id); found != in.groups.end())
      ((*self).*run)(in, *std::shared_ptr<Group>(found->second));
  });
}

// Heartbeats --------------------------------------------------------------------------------------

void Hub::Impl::noticeStop() {
  if (mayBeExcluded(gap_.late(Clock::now()), heartbeat_)) mayBeReplaced();
}

void Hub::Impl::mayBeReplaced() {
  awake_beat_ = beats_ + 1;
  for (auto& [size, world] : worlds_)
    for (int rank = 0; world.complete && rank < size; ++rank) {
      const auto member = world.members.find(rank);
      const bool here =
          member != world.members.end() && (member->second->reachable() || member->second->patient);
      if (!here && !world.gone.contains(rank)) mayHaveMoved(world, rank);
    }
}

void Hub::Impl::mayHaveMoved(World& world, int rank) {
  if (world.maybe_moved.insert(rank).second) world.changed = true;
}

void Hub::Impl::scheduleTick() {
  noticeStop();
  gap_.expect(Clock::now() + tick_period_);
  tick_ = loop_->after(tick_period_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick();
  });
}

void Hub::Impl::tick() {
  if (stopped_) return;
  const auto now = Clock::now();
  const auto late = gap_.late(now);
  noticeStop();
  ++beats_;
  for (auto& [size, world] : worlds_) {
    for (auto& [rank, member] : world.members) {
      if (!member->reachable()) continue;
      member->link->send(Type::beat, frames::Beat{beats_});
      judge(world, *member, late, now);
    }
    if (world.changed && !claims_) tellPresence(world);
    decideAll(world);
  }
  scheduleTick();
}

void Hub::Impl::judge(World& world, Member& member, base::Clock::duration late,
                      base::Clock::time_point now) {
  const auto limit = silenceLimit(member.heartbeat);
  member.silence.forgive(late, now);
  member.echo.forgive(late, now);
  const bool silent = member.silence.longerThan(limit, now);
  // A rank that sends nothing acknowledges no beats either: it is silent, not deaf.
  const bool deaf =
      member.echo.longerThan(limit, now) && !member.silence.longerThan(member.heartbeat, now);
  if (member.patient) {
    if (silent && !member.silent)
      base::log(LogLevel::warn, "rank ", member.rank, " ", silenceOf(member).text,
                "; waiting for it, since RONDO_PATIENT is set");
  } else {
    if (silent && !member.silent) failRank(world, member.rank, silenceOf(member), false);
    if (deaf && !member.deaf) blameHost(world, member);
  }
  member.silent = silent;
  member.deaf = deaf;
}

} // namespace rondo::bootstrap
