// Moves the control plane to another rank's process: when the hub's process ends, or when its own
// ranks have left the communicators that the others still use or may still shrink.
//
// The hub offers its role to the lowest rank outside its process that lives. If that rank does not
// answer soon, the next rank of another process gets the offer too, and the first answer counts.
// That rank's process opens a new hub and answers with its address, unless the rank is leaving too.
// The old hub sends the address to all ranks. They connect to the new hub and send their state:
// communicators, calls, and what they wait for. The old hub itself passes on only the list of ranks
// that are still there, and the last calls of those that have left communicators. A rank that
// answered too late closes the hub that it opened, of which no other rank knows, and follows as the
// others do. The new hub asks ranks that have not connected after two seconds whether they live.
// One that has not connected after three is excluded. If it comes later, the new hub tells it so.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/awake.h"
#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/hub_impl.h"
#include "bootstrap/limits.h"

namespace rondo::bootstrap {

namespace {

using namespace std::chrono_literals;

/// Ranks that end together need no successor. The first of them waits this long for the others.
constexpr std::chrono::milliseconds kTogether{50};

} // namespace

// The hub that ends -------------------------------------------------------------------------------

/// The state that handOver() waits for, possibly in several threads.
struct Hub::Impl::HandOver {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false, moved = false;
};

std::set<int> Hub::Impl::successors(const World& world) const {
  std::set<int> all;
  for (const auto& [id, group] : world.groups) {
    if (group == world.root) continue;
    for (const int rank : group->members) {
      const auto member = world.members.find(rank);
      if (member != world.members.end() && member->second->reachable() &&
          !member->second->hosts_hub && !group->ledger.hasLeft(group->rank_of.at(rank)))
        all.insert(rank);
    }
  }
  return all;
}

std::vector<bool> Hub::Impl::reachableRanks(const World& world) {
  std::vector<bool> all;
  for (int rank = 0; rank < world.size; ++rank) {
    const auto member = world.members.find(rank);
    all.push_back(member != world.members.end() && member->second->reachable());
  }
  return all;
}

bool Hub::Impl::handOver(bool process_ends) {
  // The host's own rank has left before its hub. It may not know that it should connect here.
  if (process_ends)
    loop_->call([&] {
      for (auto& [size, world] : worlds_)
        if (world.awaited.contains(welcome_.host)) settled(world, welcome_.host);
    });
  bool needed = false, settling = false;
  // A rank that does not connect to this hub in time counts as dead and is not waited for.
  const base::Deadline together(kTogether), limit(comingLimit());
  for (;;) {
    loop_->call([&] {
      needed = settling = false;
      for (const auto& [size, world] : worlds_) {
        // Nobody has been sent to a hub that was opened for an offer.
        const bool serves = !settings_.succession || claims_ || settle_timer_ != 0;
        settling |= serves && !world.awaited.empty();
        needed |= world.complete && (settling || !successors(world).empty());
      }
    });
    if (!needed) return false;
    if (limit.passed() || (together.passed() && !settling)) break;
    std::this_thread::sleep_for(1ms);
  }
  std::shared_ptr<HandOver> wait;
  std::chrono::milliseconds answer = kHandOverLimit;
  loop_->call([&] {
    if (process_ends)
      answer = std::clamp(silenceLimit(heartbeat_), kHandOverLimit, kLongestHandOver);
    const bool first = !handing_over_;
    if (first) handing_over_ = std::make_shared<HandOver>();
    wait = handing_over_;
    if (first) offer(-1);
  });
  std::unique_lock lock(wait->mutex);
  base::waitAwake(&wait->changed, lock, answer, [&] { return wait->over; });
  return wait->moved;
}

void Hub::Impl::handOverEnds(bool moved) {
  last_offered_ = -1;
  offered_.clear();
  loop_->cancel(offer_timer_);
  const auto ends = std::exchange(handing_over_, nullptr);
  if (!ends) return;
  std::lock_guard lock(ends->mutex);
  ends->over = true;
  ends->moved = moved;
  ends->changed.notify_all();
}

bool Hub::Impl::hasOffer(const World& world, int rank) const {
  const auto own = world.standbys.find(rank);
  return std::any_of(offered_.begin(), offered_.end(), [&](const auto& item) {
    const auto other = world.standbys.find(item.first);
    return item.first == rank || (own != world.standbys.end() && other != world.standbys.end() &&
                                  own->second == other->second);
  });
}

void Hub::Impl::sendOffer(World& world, Member& member) {
  if (world.changed) tellPresence(world); // the rank that gets the offer passes it on
  base::log(LogLevel::info, "rank ", member.rank, " is offered the control plane");
  if (!world.candidates.contains(member.rank)) // a candidate knows where all ranks listen
    for (const auto& part : frames::Standbys::parts(false, false, world.standbys))
      member.link->send(Type::standbys, part);
  frames::Succeed offer{reachableRanks(world), {}};
  for (const auto& [id, group] : world.groups) {
    if (group == world.root) continue;
    for (const auto& [rank, progress] : group->ledger.departed())
      if (offer.departed.size() < frames::Succeed::kMostDeparted)
        offer.departed.push_back({id, rank, progress});
  }
  offered_[member.rank] = {offer.expected, std::nullopt};
  member.link->send(Type::succeed, offer);
}

void Hub::Impl::offer(int after) {
  for (auto& [size, world] : worlds_) {
    if (!world.complete) continue;
    const std::set<int> all = successors(world);
    for (auto next = all.upper_bound(after); next != all.end(); ++next) {
      Member& member = *world.members.at(*next);
      if (member.silent || member.deaf || hasOffer(world, *next)) continue;
      const auto limit = offered_.empty() ? kOfferLimit : kNextLimit;
      last_offered_ = member.rank;
      loop_->cancel(offer_timer_);
      offer_timer_ = loop_->after(limit, [weak = weak_from_this(), rank = last_offered_] {
        const auto self = weak.lock();
        if (self && !self->stopped_ && self->last_offered_ == rank) self->offer(rank);
      });
      return sendOffer(world, member);
    }
  }
  if (offered_.empty()) handOverEnds(false); // else wait: one of them may still answer
}

void Hub::Impl::succeeded(World& world, Member& member, const frames::Succeeded& answer) {
  const auto offered = offered_.find(member.rank);
  if (offered == offered_.end() || offered->second.address)
    violation("it hosts a control plane that was not offered to it");
  if (!answer.address) {
    offered_.erase(offered);
    return offer(member.rank);
  }
  offered->second.address = answer.address;
  // While this process was stopped, ranks may have said bye and ended without an answer.
  chooseLater(world.size, member.rank);
}

void Hub::Impl::chooseLater(int size, int rank) {
  const auto choose = [weak = weak_from_this(), size, rank] {
    const auto self = weak.lock();
    if (self && !self->stopped_) self->choose(self->worlds_.at(size), rank);
  };
  // The first post runs at the end of this turn of the loop, the second one after the next turn.
  loop_->post([weak = weak_from_this(), choose] {
    if (const auto self = weak.lock()) self->loop_->post(choose);
  });
}

void Hub::Impl::choose(World& world, int rank) {
  const auto offered = offered_.find(rank);
  if (offered == offered_.end() || !offered->second.address) return; // it has gone meanwhile
  // Its hub would wait for ranks that have ended since the offer, or would not know which ranks may
  // follow another hub.
  if (world.changed || offered->second.expected != reachableRanks(world))
    return sendOffer(world, *world.members.at(rank));
  base::log(LogLevel::info, "rank ", rank, " hosts the control plane from now on");
  const frames::Moved moved{rank, *offered->second.address};
  for (const auto& [other, member] : world.members) {
    if (!member->reachable()) continue;
    member->link->send(Type::moved, moved);
    member->gone = true;
  }
  handOverEnds(true);
  endIfAllGone(world);
}

// The hub that takes over -------------------------------------------------------------------------

void Hub::Impl::takeOver(const Succession& from) {
  World& world = makeWorld(settings_.size);
  world.complete = true;
  welcome_.host = from.host;
  generation_ = from.generation;
  claims_ = from.standby != nullptr;
  world.standbys = from.standbys;
  world.maybe_moved = from.maybe_moved;
  std::vector<int> asked; // when the lists are complete, because an answer may come at once
  for (int rank = 0; rank < settings_.size; ++rank) {
    const bool expected = from.expected[static_cast<std::size_t>(rank)];
    const bool present = from.present[static_cast<std::size_t>(rank)];
    if (expected) world.awaited.insert(rank);
    else world.root->ledger.leave(rank);
    if (!present) world.gone.insert(rank);
    else if (claims_ || !expected) asked.push_back(rank);
  }
  for (const int rank : asked) probe(world, rank);
  // A hub that was opened for an offer does not know when the ranks are sent to it.
  if (claims_) limitComing();
}

std::chrono::milliseconds Hub::Impl::comingLimit() const {
  const bool replaces = settings_.succession && settings_.succession->standby;
  return replaces ? kReplaceLimit + settings_.succession->spread : kComeLimit;
}

void Hub::Impl::limitComing() {
  if (settle_timer_ != 0) return;
  // After kAskTime, connects to the missing ranks: one that refuses has died, so its error is
  // peer_dead and not unresponsive.
  ask_timer_ = loop_->after(kAskTime, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->stopped_) return;
    World& in = self->worlds_.at(self->settings_.size);
    for (const int rank : in.awaited) self->probe(in, rank);
  });
  settle_timer_ = loop_->after(comingLimit(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && !self->stopped_) self->comingEnds(self->worlds_.at(self->settings_.size));
  });
}

void Hub::Impl::comingEnds(World& world) {
  const bool waits = !claims_ && std::any_of(world.members.begin(), world.members.end(),
                                             [](const auto& item) { return item.second->patient; });
  for (const int rank : std::set<int>(world.awaited)) {
    if (!world.awaited.contains(rank)) continue; // a probe has just settled it
    base::log(waits ? LogLevel::warn : LogLevel::info, "rank ", rank,
              " did not connect to the new control plane",
              waits ? "; waiting for it, since RONDO_PATIENT is set" : "");
    if (waits) continue; // until it comes, or its listener refuses a connection
    failRank(world, rank,
             {ErrorCode::unresponsive,
              "does not respond: it did not connect to the new host of the control plane"},
             true);
    dropProbe(world, rank);
    if (claims_) world.away.insert(rank); // it has been asked already
    else probe(world, rank);
    if (world.awaited.contains(rank)) settled(world, rank);
  }
}

/// A communicator that the old hub served.
std::shared_ptr<Group> Hub::Impl::makeGroup(std::uint64_t id, const std::vector<int>& ranks) const {
  auto group = std::make_shared<Group>(id, ranks);
  for (const Departed& one : settings_.succession->departed)
    if (one.communicator == id && one.rank >= 0 && one.rank < group->ledger.size())
      group->ledger.setProgress(one.rank, one.progress);
  return group;
}

void Hub::Impl::roster(World& world, Member& member, const frames::Roster& part) {
  if (!world.awaited.contains(member.rank)) violation("it described a communicator too late");
  std::vector<int>& ranks = member.rosters[part.communicator];
  if (part.first != ranks.size()) violation("parts of a communicator arrived out of order");
  ranks.insert(ranks.end(), part.ranks.begin(), part.ranks.end());
  if (ranks.size() > part.size || ranks.size() > static_cast<std::size_t>(world.size))
    violation("it described more ranks than the job has");
  if (ranks.size() < part.size) return;
  for (const int rank : ranks)
    if (rank < 0 || rank >= world.size) violation("it described a rank that is not in the job");
  const std::set<int> once(ranks.begin(), ranks.end());
  if (once.size() != ranks.size() || !once.contains(member.rank))
    violation("it described an invalid communicator");
  std::shared_ptr<Group>& group = world.groups[part.communicator];
  const bool first = !group;
  if (first) group = makeGroup(part.communicator, ranks);
  else if (group->members != ranks) violation("it described a communicator with other ranks");
  group->young = part.opening == frames::Opening::young && (first || group->young);
  group->described.insert(member.rank);
  if (claims_) {
    group->has_result = group->has_result || part.opening == frames::Opening::done;
    group->by_agreement = part.by_agreement;
    if (part.opening == frames::Opening::started) group->opening.try_emplace(member.rank);
  }
  leaveSilently(world, *group);
  // The communicator may have failed before this rank connected.
  const auto& failure = group->ledger.failure();
  if (failure && !claims_) member.link->send(Type::failed, frames::Failed{group->id, *failure});
}

void Hub::Impl::endOpening(World& world, Group& group) {
  for (const auto& [rank, index] : std::exchange(group.opening, {})) {
    const auto member = world.members.find(rank);
    if (!group.has_result || !index || !member->second->reachable()) continue;
    group.ledger.forgetRound(*index);
    const Blobs empty(group.members.size());
    for (const auto& part : frames::Gathered::parts(group.id, *index, empty))
      member->second->link->send(Type::gathered, part);
  }
  // A rank that never got the old hub's agreement does not know this communicator, so the opening
  // cannot end.
  std::vector<int> unaware;
  for (const int rank : group.members) {
    const auto member = world.members.find(rank);
    const bool here = member != world.members.end() && member->second->reachable();
    if (group.by_agreement && !group.has_result && here && !group.described.contains(rank))
      unaware.push_back(rank);
  }
  if (!unaware.empty())
    group.ledger.fail({ErrorCode::peer_dead,
                       "the process that hosted the control plane died before all ranks had heard "
                       "of this communicator",
                       -1});
  if (const auto& failure = group.ledger.failure())
    toAll(world, group, Type::failed, frames::Failed{group.id, *failure});
  for (const int rank : unaware) leaveGroup(world, group, group.rank_of.at(rank));
}

/// A rank has left this communicator if it is gone, or has described all its communicators without
/// this one, unless the communicator is so new that the rank may not have made it yet. A rank that
/// failed before it had described its communicators may have been in this one, which then fails.
void Hub::Impl::leaveSilently(World& world, Group& group) {
  for (const int rank : group.members) {
    const int own = group.rank_of.at(rank);
    const auto member = world.members.find(rank);
    const bool here = member != world.members.end() && member->second->reachable();
    if (world.awaited.contains(rank) || group.described.contains(rank) ||
        group.ledger.hasLeft(own) || (here && group.young))
      continue;
    const auto failed = failed_coming_.find(rank);
    if (failed != failed_coming_.end()) group.ledger.fail(failureOf(own, failed->second));
    group.ledger.leave(own);
    group.said = true; // the rank that left has already been told which calls differ
  }
}

void Hub::Impl::settled(World& world, int rank) {
  if (world.awaited.erase(rank) == 0) violation("it settled twice");
  const auto member = world.members.find(rank);
  const auto groups = world.groups;
  for (const auto& [id, group] : groups) {
    const auto found = group->rank_of.find(rank);
    if (found == group->rank_of.end() || group->ledger.hasLeft(found->second)) continue;
    const bool here = member != world.members.end() && member->second->reachable();
    if (!here || !(group->young || group->described.contains(rank)))
      leaveGroup(world, *group, found->second);
  }
  if (member != world.members.end()) {
    member->second->rosters.clear();
    if (member->second->reachable()) {
      dropProbe(world, rank);
      failed_coming_.erase(rank); // what it did not describe, it has left
    }
  }
  if (!world.awaited.empty()) return;
  loop_->cancel(settle_timer_);
  loop_->cancel(ask_timer_);
  closeIfAllCame(world);
  base::log(LogLevel::info, "the control plane has moved here");
  if (!claims_) {
    ++generation_; // agreements are numbered anew
    tellPresence(world);
  }
  resume(world);
  endIfAllGone(world);
}

} // namespace rondo::bootstrap
