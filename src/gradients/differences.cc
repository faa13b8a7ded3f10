// Compares hashes of the ranks' lists first, and exchanges texts only if they differ.
#include "gradients/differences.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rondo/detail/hash.h"

namespace rondo::gradients {

namespace {

std::uint64_t hashOf(const std::string& text) {
  return detail::fnv1a(std::as_bytes(std::span(text)));
}

/// Returns the text of rank `owner` on all ranks.
std::string share(Communicator& comm, std::string text, int owner) {
  std::uint64_t size = text.size();
  comm.broadcast(&size, &size, 1, DataType::uint64, owner);
  text.resize(size);
  comm.broadcast(text.data(), text.data(), size, DataType::uint8, owner);
  return text;
}

} // namespace

std::optional<Difference> firstDifference(Communicator& comm, std::span<const std::string> texts) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  // own[0] is the number of texts; then follows a hash for each text that also covers all texts
  // before it.
  std::vector<std::uint64_t> own = {texts.size()};
  std::uint64_t hash = 0;
  for (const std::string& one : texts)
    own.push_back(hash = hashOf(one + "\n" + std::to_string(hash)));

  std::vector<std::uint64_t> heads(2 * ranks);
  const std::uint64_t head[] = {own.front(), own.back()};
  comm.allGather(head, heads.data(), 2, DataType::uint64);
  Difference found;
  int odds = 0;
  std::uint64_t least = own.front();
  for (std::size_t r = 0; r < ranks; ++r) {
    least = std::min(least, heads[2 * r]);
    if (std::equal(heads.begin(), heads.begin() + 2, heads.begin() + static_cast<long>(2 * r)))
      continue;
    if (odds++ == 0) found.odd = static_cast<int>(r);
  }
  if (odds == 0) return {};
  if (odds == 1) found.culprit = found.odd;

  // Hashes of all prefixes that both lists have show where the first differing rank leaves rank 0.
  std::vector<std::uint64_t> all(least * ranks);
  comm.allGather(own.data() + 1, all.data(), least, DataType::uint64);
  const std::size_t odd = static_cast<std::size_t>(found.odd) * least;
  while (found.number < least && all[found.number] == all[odd + found.number]) ++found.number;
  const std::string mine = found.number < texts.size() ? texts[found.number] : "nothing";
  found.ours = share(comm, mine, 0);
  found.theirs = share(comm, mine, found.odd);
  return found;
}

} // namespace rondo::gradients
