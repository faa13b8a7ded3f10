// Assigns the sends and receives of a group to launches and blocks.
#include "engine/batch_layout.h"

#include <algorithm>

#include "device/launch.h"
#include "engine/engine.h"

namespace rondo::engine {

using device::kBatchJobs;

BatchLayout::BatchLayout(int rank, int ranks, const device::Residency& residency,
                         std::uint32_t most_copies)
    : rank_(rank),
      ranks_(ranks),
      residency_(residency),
      sent_(static_cast<std::size_t>(ranks)),
      received_(sent_) {
  const auto peers = static_cast<std::uint32_t>(ranks);
  const auto share = static_cast<std::uint32_t>(residency.blocks / std::max(residency.ranks, 1));
  copies_ = std::clamp(share / (2 * peers), std::uint32_t{1}, most_copies);
  lanes_ = std::max(share / (2 * copies_), std::uint32_t{1});
  reach_ = std::min(peers, kBatchJobs / 2);
  turns_ = kBatchJobs / (2 * reach_);
}

Seat BatchLayout::next(int queue) {
  const bool sends = queue > Engine::kCollectives;
  const int peer = sends ? queue - Engine::sendQueue(0) : Engine::recvQueue(0) - queue;
  const int ahead = sends ? peer - rank_ : rank_ - peer;
  const auto distance = static_cast<std::uint32_t>((ahead + ranks_) % ranks_);
  const std::uint32_t number = (sends ? sent_ : received_)[distance]++;
  const std::uint32_t launches = (static_cast<std::uint32_t>(ranks_) + reach_ - 1) / reach_;
  return {number / turns_ * launches + distance / reach_, distance % lanes_ + (sends ? 0 : lanes_),
          distance, number};
}

void BatchLayout::clear() {
  std::fill(sent_.begin(), sent_.end(), 0);
  std::fill(received_.begin(), received_.end(), 0);
}

} // namespace rondo::engine
