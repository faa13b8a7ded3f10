// Makes communicators of some ranks of another one, without the other ranks, which may be dead.
// Each staying rank sends the hub the list of staying ranks; the first such frame creates the child
// there. Nothing waits here; the child's own exchanges do.
#include <algorithm>

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

} // namespace

std::shared_ptr<RemoteCommunicator> Membership::shrink(RemoteCommunicator& communicator,
                                                       const std::vector<bool>& stay) {
  const auto own = std::count(stay.begin(), stay.begin() + communicator.rank, true);
  std::shared_ptr<RemoteCommunicator> child;
  {
    std::lock_guard lock(mutex_);
    const std::uint64_t index = communicator.shrunk[stay]++;
    child = std::make_shared<RemoteCommunicator>(shrunkId(communicator.id, index, stay),
                                                 static_cast<int>(own),
                                                 staying(communicator.members, stay));
    communicators_[child->id] = child;
  }
  loop_->post([weak = weak_from_this(), wish = frames::Shrink{communicator.id, child->id, stay}] {
    const auto self = weak.lock();
    if (self && self->link_) self->link_->send(frames::Type::shrink, wish);
  });
  return child;
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
    return;
  }
  found->second = std::make_shared<Group>(wish.child, members);
  failSplitsOfDeadRanks(world);
}

} // namespace rondo::bootstrap
