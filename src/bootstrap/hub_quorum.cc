// Decides whether this hub has the majority of the job, and which ranks live.
//
// A rank has ended for certain if it said so, its launcher saw its process end, or its listener
// refuses connections: it listens as long as it lives. If a rank's connection ended, the hub probes
// its listener. While this process was stopped or cut off, ranks may have continued with another
// hub; they count as living even if they have ended since. All ranks that have not ended for
// certain are the job. A hub serves only if more than half of the job answers it, or half with the
// job's lowest rank. Two hubs that cannot see each other therefore never both serve, because a
// living rank answers only one. Before a hub goes on without a living rank, it tells that rank's
// listener so.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/hub_impl.h"

namespace rondo::bootstrap {

namespace {

using base::Clock;

/// The ranks that may take the hub over. If fewer ranks die at once, one of them lives.
constexpr std::size_t kCandidates = 8;
/// Interval between questions to a rank that lives and has not come yet.
constexpr std::chrono::milliseconds kProbeAgain{20};
constexpr std::chrono::milliseconds kLook{1};

} // namespace

bool Hub::Impl::answers(const Member& member) {
  return member.reachable() && (member.patient || !(member.silent || member.deaf));
}

std::vector<int> Hub::Impl::unseen(const World& world) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size; ++rank) {
    const auto member = world.members.find(rank);
    const bool here = member != world.members.end() && answers(*member->second);
    if (!here && !world.gone.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

Hub::Impl::Standing Hub::Impl::standing(World& world) {
  if (!world.complete) return Standing::majority;
  if (!world.probes.empty() || !world.awaited.empty()) return Standing::unknown;
  const std::vector<int> missing = unseen(world);
  if (missing.empty()) return Standing::majority;
  const std::size_t all = static_cast<std::size_t>(world.size) - world.gone.size();
  const std::size_t here = all - missing.size();
  int lowest = 0;
  while (world.gone.contains(lowest)) ++lowest;
  const bool tie = 2 * here == all && lowest != missing.front();
  if (2 * here <= all && !tie) return Standing::minority;
  // Otherwise a missing rank would take the ranks here for dead once they have ended, and go on
  // alone. A connected rank needs no probe: the hub's messages reach it.
  for (const int rank : missing) {
    const auto member = world.members.find(rank);
    const bool connected = member != world.members.end() && member->second->reachable();
    if (!connected && world.told.insert(rank).second) probe(world, rank);
  }
  return world.probes.empty() ? Standing::majority : Standing::unknown;
}

Failure Hub::Impl::minorityFailure(const World& world) const {
  const std::vector<int> missing = unseen(world);
  const std::size_t all = static_cast<std::size_t>(world.size) - world.gone.size();
  const bool moved = std::any_of(missing.begin(), missing.end(),
                                 [&](int rank) { return world.maybe_moved.contains(rank); });
  if (moved)
    return {ErrorCode::unresponsive,
            "the process that hosts the control plane (" + hostName(-1, welcome_.host) +
                ") was stopped or cut off for a while, and " + rankList(missing) +
                " of the job may have continued without it. A job continues only with more than "
                "half of its living ranks, or with half including the lowest",
            missing.front()};
  return {ErrorCode::unresponsive,
          "this side of the network has only " + std::to_string(all - missing.size()) +
              " of the job's " + std::to_string(all) + " living ranks; " + rankList(missing) +
              " of the job cannot be reached and may go on without it. A job continues only with "
              "more than half of its living ranks, or with half including the lowest",
          missing.empty() ? -1 : missing.front()};
}

Failure Hub::Impl::inGroup(Failure failure, const Group& group) {
  const auto own = group.rank_of.find(failure.culprit);
  failure.culprit = own == group.rank_of.end() ? -1 : own->second;
  return failure;
}

void Hub::Impl::finishRound(World& world, Group& group, std::uint64_t index) {
  const std::shared_ptr<Round> round = group.ledger.round(index);
  if (!round->complete()) return;
  const Standing now = standing(world);
  if (now == Standing::unknown) return;
  if (now == Standing::minority)
    return failGroup(world, group, inGroup(minorityFailure(world), group));
  if (world.changed) tellPresence(world); // before the ranks go on
  group.ledger.forgetRound(index);
  group.young = false;
  if (round->split) makeChildren(world, group, index, round->blobs);
  for (const auto& part : frames::Gathered::parts(group.id, index, round->blobs))
    toAll(world, group, Type::gathered, part);
  if (round->split) failSplitsOfDeadRanks(world);
}

void Hub::Impl::resume(World& world) {
  const auto waits = [](const auto& item) {
    return !item.second->asking.empty() || item.second->ledger.openRounds() > 0;
  };
  // Otherwise nothing waits, and the standing takes long to compute.
  if (!claims_ && std::none_of(world.groups.begin(), world.groups.end(), waits)) return;
  const Standing now = standing(world);
  if (now == Standing::unknown || !world.complete) return;
  if (std::exchange(claims_, false)) {
    if (now == Standing::minority) return dissolve(world);
    ++generation_;
    base::log(LogLevel::info, "this process hosts the control plane, after its host died");
    tellPresence(world);
    const auto opening = world.groups;
    for (const auto& [id, group] : opening) endOpening(world, *group);
  }
  const auto groups = world.groups;
  for (const auto& [id, group] : groups)
    for (const std::uint64_t index : group->ledger.completeRounds())
      finishRound(world, *group, index);
  decideAll(world);
}

void Hub::Impl::dissolve(World& world) {
  const Failure why = minorityFailure(world);
  base::log(LogLevel::warn, "the control plane cannot continue here: ", why.text);
  for (const auto& [rank, member] : world.members) {
    if (!member->reachable()) continue;
    member->link->send(Type::refused, frames::Refused{why.text, why.code, why.culprit});
    member->link->close();
    member->gone = true;
  }
  endIfAllGone(world);
}

void Hub::Impl::tellPresence(World& world) {
  world.changed = false;
  frames::Present present{generation_, welcome_.host, {}, {}};
  for (int rank = 0; rank < world.size; ++rank) {
    present.ranks.push_back(!world.gone.contains(rank));
    present.maybe_moved.push_back(world.maybe_moved.contains(rank));
  }
  toAll(world, *world.root, Type::present, present);
  std::map<int, net::SocketAddress> others, first;
  for (const auto& [rank, address] : world.standbys) {
    const auto member = world.members.find(rank);
    const bool here = member != world.members.end() && answers(*member->second);
    if (!world.gone.contains(rank)) (here ? first : others)[rank] = address;
  }
  const std::set<int> candidates = chooseCandidates(first, kCandidates);
  if (candidates == world.candidates) return;
  world.candidates = candidates;
  for (auto next = first.begin(); next != first.end();) {
    const auto item = next++;
    if (!candidates.contains(item->first)) others.insert(first.extract(item));
  }
  for (const auto& [rank, member] : world.members) {
    if (!member->reachable()) continue;
    for (const auto& part : frames::Standbys::parts(true, true, first))
      member->link->send(Type::standbys, part);
    if (!candidates.contains(rank)) continue;
    // One that takes over has to find out which ranks live.
    for (const auto& part : frames::Standbys::parts(false, false, others))
      member->link->send(Type::standbys, part);
  }
}

// Liveness ----------------------------------------------------------------------------------------

void Hub::Impl::rankEnded(World& world, int rank) {
  if (world.gone.contains(rank)) return;
  dropProbe(world, rank);
  if (world.maybe_moved.contains(rank)) {
    world.away.insert(rank);
  } else {
    world.gone.insert(rank);
    world.away.erase(rank);
    world.changed = true;
    closeIfAllCame(world);
  }
  if (world.awaited.contains(rank)) {
    failRank(world, rank, deathOf(), true);
    return settled(world, rank);
  }
  resume(world);
}

void Hub::Impl::probe(World& world, int rank) {
  if (!world.standbys.contains(rank)) return;
  world.probes.try_emplace(rank);
  // Later, because an answer may come at once, and then decide without what the caller does next.
  lookLater(std::chrono::milliseconds(0));
}

void Hub::Impl::askAgain(World& world) {
  for (const int rank : std::exchange(world.away, {})) probe(world, rank);
}

void Hub::Impl::dropProbe(World& world, int rank) {
  const auto found = world.probes.find(rank);
  if (found == world.probes.end()) return;
  if (found->second.dial) old_probes_.push_back(std::move(found->second.dial));
  world.probes.erase(found);
}

void Hub::Impl::lookAtProbes() {
  probe_timer_ = 0;
  if (stopped_) return;
  std::erase_if(old_probes_, [](const auto& dial) {
    try {
      return dial->poll().has_value();
    } catch (const Error&) {
      return true;
    }
  });
  bool more = !old_probes_.empty();
  int asking = static_cast<int>(old_probes_.size());
  for (auto& [size, world] : worlds_) {
    std::vector<int> ranks;
    for (const auto& [rank, probe] : world.probes) ranks.push_back(rank);
    for (const int rank : ranks) {
      const auto found = world.probes.find(rank);
      if (found == world.probes.end()) continue;
      Probe& probe = found->second;
      asking += probe.dial ? 1 : 0;
      bool dead = false;
      try {
        if (!probe.dial) {
          if (Clock::now() < probe.next || asking >= kProbesAtOnce) continue;
          net::Dial::Settings dial;
          dial.address = world.standbys.at(rank);
          dial.secret = settings_.secret;
          dial.hello = {net::Hello::Purpose::control, settings_.job, rank, size, Standby::kProbe};
          if (world.told.contains(rank)) dial.hello.communicator = Standby::kExcludes;
          dial.hello.tls = world.first && world.first->tls;
          dial.deadline = Clock::now() + kProbeLimit;
          dial.patient = false;
          probe.dial = std::make_unique<net::Dial>(dial);
          ++asking;
        }
        if (!probe.dial->poll()) continue;
      } catch (const Error& error) {
        dead = error.code() == ErrorCode::peer_dead;
      }
      probe.dial.reset();
      probed(world, rank, dead);
    }
    more = more || !world.probes.empty();
  }
  if (more && !stopped_) lookLater(kLook);
}

void Hub::Impl::lookLater(Clock::duration wait) {
  if (probe_timer_ != 0) return;
  probe_timer_ = loop_->after(wait, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->lookAtProbes();
  });
}

void Hub::Impl::probed(World& world, int rank, bool dead) {
  noticeStop();
  if (dead) {
    base::log(LogLevel::info, "rank ", rank, " has ended: its listener refuses connections");
    return rankEnded(world, rank);
  }
  if (world.awaited.contains(rank)) {
    world.probes[rank].next = Clock::now() + kProbeAgain;
    return;
  }
  world.probes.erase(rank);
  world.away.insert(rank);
  resume(world);
}

// Agreement ---------------------------------------------------------------------------------------

void Hub::Impl::agree(World& world, Member& member, const frames::Agree& wish) {
  const auto group = groupOf(world, member, wish.communicator);
  // The hub has already told an excluded rank so, and does not answer again.
  if (!group || group->ledger.hasLeft(group->rank_of[member.rank])) return;
  group->asking.insert(member.rank);
  decide(world, *group);
}

void Hub::Impl::decideAll(World& world) {
  const auto groups = world.groups;
  for (const auto& [id, group] : groups) decide(world, *group);
}

void Hub::Impl::decide(World& world, Group& group) {
  if (group.asking.empty()) return;
  const Standing now = standing(world);
  if (now == Standing::unknown) return;
  std::vector<int> staying;
  frames::Agreed answer;
  for (const int rank : group.members) {
    const auto member = world.members.find(rank);
    const bool lives = member != world.members.end() && answers(*member->second);
    const bool wants = group.asking.contains(rank);
    const bool counts = lives && !group.ledger.hasLeft(group.rank_of.at(rank));
    if (counts && !wants && now == Standing::majority) return; // it is on its way
    answer.made.stay.push_back(counts && wants);
    if (counts && wants) staying.push_back(rank);
  }
  if (world.changed && now == Standing::majority) tellPresence(world); // before the ranks go on
  answer.made.communicator = group.id;
  answer.made.child = agreedId(group.id, generation_, ++agreements_);
  if (now == Standing::minority) answer.failure = inGroup(minorityFailure(world), group);
  else if (!staying.empty()) {
    auto& child = world.groups[answer.made.child];
    child = std::make_shared<Group>(answer.made.child, staying);
    child->young = true;
  }
  std::set<int> told = std::exchange(group.asking, {});
  // An excluded rank counts as having left, even if it responds again before it calls shrink().
  for (const int rank : group.members) {
    const int own = group.rank_of.at(rank);
    const bool stays = answer.made.stay[static_cast<std::size_t>(own)];
    if (now == Standing::minority || stays || group.ledger.hasLeft(own)) continue;
    told.insert(rank);
    leaveGroup(world, group, own);
  }
  for (const int rank : told) {
    const auto member = world.members.find(rank);
    if (member != world.members.end() && member->second->reachable())
      member->second->link->send(Type::agreed, answer);
  }
}

} // namespace rondo::bootstrap
