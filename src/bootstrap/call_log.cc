// Reads a call log while it is being written, and finds the first difference between ranks' logs.
#include "bootstrap/call_log.h"

#include <algorithm>
#include <map>

namespace rondo::bootstrap {

namespace {

using Blocks = CallReport::Blocks;

std::uint64_t firstCall(int scale, std::uint64_t block) {
  return std::max<std::uint64_t>(block << scale * CallReport::kBits, 1);
}
std::uint64_t lastCall(int scale, std::uint64_t block) {
  return ((block + 1) << scale * CallReport::kBits) - 1;
}

CallDifference differenceAt(int scale, std::uint64_t block, int odd, std::uint64_t odd_value,
                            int other, std::uint64_t other_value) {
  CallDifference found{firstCall(scale, block), lastCall(scale, block), odd, other, 0, 0};
  if (scale > 0) return found;
  found.odd_signature = odd_value;
  found.other_signature = other_value;
  return found;
}

std::string described(DescribeSignature describe, std::uint64_t signature, std::uint64_t sequence) {
  return describe
             ? describe(signature, sequence)
             : "call #" + std::to_string(sequence) + " of signature " + std::to_string(signature);
}

} // namespace

void CallReport::write(base::Writer& out) const {
  out.u64(entered);
  for (const Blocks& blocks : scales) {
    out.u64(blocks.first);
    out.u8(static_cast<std::uint8_t>(blocks.values.size()));
    for (const std::uint64_t value : blocks.values) out.u64(value);
  }
}

CallReport CallReport::read(base::Reader& in) {
  CallReport report;
  report.entered = in.u64();
  for (Blocks& blocks : report.scales) {
    blocks.first = in.u64();
    const std::uint8_t count = in.u8();
    if (count > kSlots) in.fail("reports more calls than are kept");
    // A block ends with the last call at the latest, so no number derived from it overflows.
    if (count > 0 && (blocks.first > report.entered || count - 1u > report.entered - blocks.first))
      in.fail("reports calls that were not entered");
    for (std::uint8_t i = 0; i < count; ++i) blocks.values.push_back(in.u64());
  }
  return report;
}

std::size_t CallReport::wireBytes() const {
  std::size_t bytes = 8;
  for (const Blocks& blocks : scales) bytes += 8 + 1 + 8 * blocks.values.size();
  return bytes;
}

CallReport CallLog::since(std::uint64_t reported) const {
  constexpr std::uint64_t kSlots = CallReport::kSlots;
  CallReport report;
  report.entered = entered();
  for (int scale = 0; scale < CallReport::kScales; ++scale) {
    Blocks& blocks = report.scales[static_cast<std::size_t>(scale)];
    const int shift = scale * CallReport::kBits;
    const std::uint64_t end = (report.entered + 1) >> shift; // one after the last whole block
    blocks.first = std::max((reported + 1) >> shift, end > kSlots ? end - kSlots : 0);
    if (scale == 0) blocks.first = std::max<std::uint64_t>(blocks.first, 1);
    blocks.first = std::min(blocks.first, end);
    for (std::uint64_t block = blocks.first; block < end; ++block)
      blocks.values.push_back(
          slots_[static_cast<std::size_t>(scale)][block % kSlots].load(std::memory_order_acquire));
  }
  // Values written meanwhile replaced those of the oldest blocks; drop these. A reader that saw
  // such a value also sees the number of the call before it, because both are released and acquired
  // in order.
  const std::uint64_t writing = entered() + 1;
  for (int scale = 0; scale < CallReport::kScales; ++scale) {
    Blocks& blocks = report.scales[static_cast<std::size_t>(scale)];
    const std::uint64_t newest = writing >> scale * CallReport::kBits;
    const std::uint64_t oldest = newest >= kSlots ? newest - kSlots + 1 : 0;
    if (oldest <= blocks.first) continue;
    const auto gone = std::min<std::uint64_t>(oldest - blocks.first, blocks.values.size());
    blocks.values.erase(blocks.values.begin(),
                        blocks.values.begin() + static_cast<std::ptrdiff_t>(gone));
    blocks.first += gone;
  }
  return report;
}

std::string CallDifference::text(DescribeSignature describe) const {
  const std::string who = "rank " + std::to_string(odd), whom = "rank " + std::to_string(other);
  if (first < last)
    return who + " made a different call than " + whom + " in one of the calls up to #" +
           std::to_string(last);
  const std::string one = described(describe, odd_signature, first);
  const std::string another = described(describe, other_signature, first);
  return who + " calls " + one + " where " + whom + " calls " + another +
         (one == another ? " with another count" : "");
}

void CallDifference::write(base::Writer& out) const {
  out.u64(first);
  out.u64(last);
  out.i32(odd);
  out.i32(other);
  out.u64(odd_signature);
  out.u64(other_signature);
}

CallDifference CallDifference::read(base::Reader& in) {
  CallDifference found;
  found.first = in.u64();
  found.last = in.u64();
  found.odd = in.i32();
  found.other = in.i32();
  found.odd_signature = in.u64();
  found.other_signature = in.u64();
  return found;
}

std::optional<CallDifference> firstDifference(const std::vector<const CallReport*>& reports) {
  for (int scale = 0; scale < CallReport::kScales; ++scale) {
    // Ranks by block and value. The ranks of a list are in order, so its first rank is the lowest.
    std::map<std::uint64_t, std::map<std::uint64_t, std::vector<int>>> said;
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      if (!reports[rank]) continue;
      const Blocks& blocks = reports[rank]->scales[static_cast<std::size_t>(scale)];
      for (std::size_t i = 0; i < blocks.values.size(); ++i)
        said[blocks.first + i][blocks.values[i]].push_back(static_cast<int>(rank));
    }
    for (const auto& [block, values] : said) {
      if (values.size() < 2) continue;
      // The majority is right. If two groups are equally large, the one with the lowest rank is
      // right.
      const auto right = std::max_element(values.begin(), values.end(), [](auto& a, auto& b) {
        if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
        return a.second.front() > b.second.front();
      });
      auto odd = values.end();
      for (auto it = values.begin(); it != values.end(); ++it)
        if (it != right && (odd == values.end() || it->second.front() < odd->second.front()))
          odd = it;
      return differenceAt(scale, block, odd->second.front(), odd->first, right->second.front(),
                          right->first);
    }
  }
  return std::nullopt;
}

std::optional<CallDifference> CallComparison::add(int rank, const CallReport& report) {
  constexpr std::uint64_t kSlots = CallReport::kSlots;
  if (slots_.empty()) slots_.resize(CallReport::kScales * kSlots);
  for (int scale = 0; scale < CallReport::kScales; ++scale) {
    const Blocks& blocks = report.scales[static_cast<std::size_t>(scale)];
    for (std::size_t i = 0; i < blocks.values.size(); ++i) {
      const std::uint64_t block = blocks.first + i;
      Slot& slot = slots_[static_cast<std::size_t>(scale) * kSlots + block % kSlots];
      if (slot.rank < 0 || slot.block < block) slot = {block, blocks.values[i], rank};
      else if (slot.block == block && slot.value != blocks.values[i])
        return slot.rank < rank
                   ? differenceAt(scale, block, rank, blocks.values[i], slot.rank, slot.value)
                   : differenceAt(scale, block, slot.rank, slot.value, rank, blocks.values[i]);
    }
  }
  return std::nullopt;
}

} // namespace rondo::bootstrap
