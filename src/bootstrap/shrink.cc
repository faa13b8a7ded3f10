// Makes communicators of some ranks of another one, without the other ranks, which may be dead.
// Each staying rank sends the hub the list of staying ranks; the first such frame creates the child
// there. Nothing waits here; the child's own exchanges do.
#include <algorithm>
#include <utility>

#include "base/awake.h"
#include "bootstrap/hub_impl.h"
#include "bootstrap/remote_communicator.h"

namespace rondo::bootstrap {

namespace {

std::vector<int> staying(const std::vector<int>& members, const std::vector<bool>& stay) {
  std::vector<int> left;
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    if (stay[rank]) left.push_back(members[rank]);
  return left;
}

Error excluded() {
  return {ErrorCode::unresponsive,
          "the other ranks go on without this one, because it did not respond"};
}

} // namespace

std::shared_ptr<RemoteCommunicator> Membership::shrink(RemoteCommunicator& communicator,
                                                       const std::vector<bool>& stay) {
  const auto own = std::count(stay.begin(), stay.begin() + communicator.rank, true);
  std::shared_ptr<RemoteCommunicator> child;
  {
    std::lock_guard lock(mutex_);
    if (communicator.excluded) throw excluded();
    const std::uint64_t index = communicator.shrunk[stay]++;
    child = std::make_shared<RemoteCommunicator>(shrunkId(communicator.id, index, stay),
                                                 static_cast<int>(own),
                                                 staying(communicator.members, stay));
    child->opening = frames::Opening::young;
    communicators_[child->id] = child;
  }
  loop_->post([weak = weak_from_this(), wish = frames::Shrink{communicator.id, child->id, stay}] {
    const auto self = weak.lock();
    if (self && self->link_) self->link_->send(frames::Type::shrink, wish);
  });
  return child;
}

void Membership::finishOpening(RemoteCommunicator& communicator, std::chrono::milliseconds limit) {
  const Failure late{ErrorCode::timeout, "shrink() timed out after " + base::text(limit), -1};
  exchange(communicator, Purpose::opened, {}, limit, late);
}

std::shared_ptr<RemoteCommunicator> Membership::agree(RemoteCommunicator& communicator,
                                                      std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  communicator.agreed.reset();
  communicator.asking = true;
  communicator.asked = false;
  loop_->post([weak = weak_from_this(), id = communicator.id] {
    const auto self = weak.lock();
    if (!self || !self->link_) return;
    std::lock_guard held(self->mutex_);
    const auto found = self->communicators_.find(id);
    if (found == self->communicators_.end()) return;
    if (!found->second->asking || std::exchange(found->second->asked, true)) return;
    self->link_->send(frames::Type::agree, frames::Agree{id});
  });
  base::waitAwake(changed_, lock, limit,
                  [&] { return communicator.agreed || communicator.excluded || !supervised_; });
  communicator.asking = false;
  const auto answer = std::exchange(communicator.agreed, std::nullopt);
  if (communicator.excluded) throw excluded();
  if (!answer) {
    if (!supervised_ && refusal_) throw inRanksOf(communicator, *refusal_).error();
    if (!supervised_)
      throw Error(ErrorCode::peer_dead, hubText() + ", which hosts the control plane, has ended");
    throw Error(ErrorCode::timeout, "shrink() timed out after " + base::text(limit) +
                                        ": a rank that lives has not called it");
  }
  if (answer->failure) throw answer->failure->error();
  return communicators_.at(answer->made.child);
}

void Membership::agreed(const frames::Agreed& answer) {
  std::lock_guard lock(mutex_);
  const auto found = communicators_.find(answer.made.communicator);
  if (found == communicators_.end()) return;
  RemoteCommunicator& parent = *found->second;
  const auto& stay = answer.made.stay;
  if (stay.size() != parent.members.size())
    throw Error(ErrorCode::transport,
                "the hub's answer to a shrink is for another number of ranks");
  const bool stays = !answer.failure && stay[static_cast<std::size_t>(parent.rank)];
  parent.excluded |= !answer.failure && !stays;
  if (!parent.asking) { // its shrink() timed out: the others must not wait for it in the child
    if (stays) link_->send(frames::Type::leave, frames::Leave{{answer.made.child, 0, {}}});
    return;
  }
  if (stays) {
    const auto own = std::count(stay.begin(), stay.begin() + parent.rank, true);
    const auto child = std::make_shared<RemoteCommunicator>(
        answer.made.child, static_cast<int>(own), staying(parent.members, stay));
    child->opening = frames::Opening::young;
    child->by_agreement = true;
    communicators_[child->id] = child;
  }
  parent.agreed = answer;
  changed_->notify_all();
}

void Hub::Impl::shrink(World& world, Member& member, const frames::Shrink& wish) {
  const auto parent = groupOf(world, member, wish.communicator);
  if (!parent) return;
  if (wish.stay.size() != parent->members.size() ||
      !wish.stay[static_cast<std::size_t>(parent->rank_of[member.rank])])
    violation("it asked to shrink to ranks that do not include it");
  const auto members = staying(parent->members, wish.stay);
  const auto [found, first] = world.groups.try_emplace(wish.child);
  if (!first) {
    if (found->second->members != members)
      violation("it named other ranks for an existing communicator");
    // It may have failed before this rank made it.
    if (const auto& failure = found->second->ledger.failure())
      member.link->send(Type::failed, frames::Failed{wish.child, *failure});
    return;
  }
  const auto child = std::make_shared<Group>(wish.child, members);
  found->second = child;
  child->young = true;
  for (const int rank : members) {
    if (world.members.contains(rank) || world.awaited.contains(rank)) continue;
    const int own = child->rank_of[rank]; // it had ended before this hub began
    failGroup(world, *child, {deathOf().code, hostName(own, -1) + " " + deathOf().text, own});
    leaveGroup(world, *child, own);
  }
  failSplitsOfDeadRanks(world);
}

} // namespace rondo::bootstrap
