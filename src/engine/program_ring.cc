// Allocates the memory of device programs in turn.
#include "engine/program_ring.h"

#include <algorithm>

#include "device/ring.h"

namespace rondo::engine {

ProgramRing::ProgramRing(device::Device& device, std::size_t bytes)
    : size_(bytes), memory_(device.allocateUncleared(bytes)), staged_(device.allocateHost(bytes)) {}

std::shared_ptr<ProgramPlace> ProgramRing::take(std::size_t bytes) {
  bytes = (bytes + device::kRingLine - 1) / device::kRingLine * device::kRingLine;
  std::size_t at = next_;
  for (bool round = false;;) {
    if (at + bytes > size_) {
      if (round) return nullptr;
      round = true;
      at = 0;
      continue;
    }
    // No place overlaps the start `at`: it is the start of the ring or the end of a place.
    const auto begin = taken_.lower_bound(at), end = taken_.lower_bound(at + bytes);
    const auto used =
        std::find_if(begin, end, [](const auto& one) { return one.second.place.use_count() > 1; });
    if (used == end) {
      taken_.erase(begin, end);
      break;
    }
    at = used->second.end;
  }
  next_ = at + bytes;
  auto place = std::make_shared<ProgramPlace>(
      ProgramPlace{{memory_, memory_.get() + at}, staged_.get() + at, nullptr});
  taken_[at] = {next_, place};
  return place;
}

} // namespace rondo::engine
