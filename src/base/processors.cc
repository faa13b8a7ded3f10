// Parses, prints and compares sets of processors; finds NUMA nodes.
#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <system_error>
#include <thread>

#include "base/parse.h"
#include "base/read_file.h"
#include "rondo/error.h"

namespace rondo::base {
namespace {

/// A set of processors in the kernel's form. cpu_set_t has room for 1024, and the kernel refuses a
/// mask with room for fewer processors than the machine may have.
constexpr int kWordBits = 8 * sizeof(unsigned long);
using Mask = std::array<unsigned long, kMostProcessors / kWordBits>;

unsigned long& wordOf(Mask& mask, int processor) {
  return mask[static_cast<std::size_t>(processor / kWordBits)];
}
cpu_set_t* kernelForm(Mask& mask) { return reinterpret_cast<cpu_set_t*>(mask.data()); }

void addWord(std::uint32_t bits, std::size_t words_behind, Processors& set) {
  for (int bit = 0; bit < 32; ++bit)
    if (bits >> bit & 1) set.push_back(static_cast<int>(words_behind) * 32 + bit);
}

} // namespace

std::string text(const Processors& set) {
  std::string text;
  for (std::size_t i = 0; i < set.size();) {
    std::size_t last = i;
    while (last + 1 < set.size() && set[last + 1] == set[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(set[i]);
    if (last > i) text += "-" + std::to_string(set[last]);
    i = last + 1;
  }
  return text;
}

Processors parseProcessors(std::string_view text, std::string_view what) {
  Processors set = parseNumbers(trim(text), what, kMostProcessors - 1);
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  return set;
}

Processors parseMask(std::string_view text, std::string_view what) {
  const auto refuse = [&] {
    throw Error(ErrorCode::invalid_argument,
                std::string(what) + ": " + quoted(text) +
                    " is no mask of processors; valid: words like 0x000000ff, at most " +
                    std::to_string(kMostProcessors) + " bits");
  };
  std::vector<std::string_view> words;
  for (std::string_view left = text;;) {
    const auto comma = left.find(',');
    words.push_back(left.substr(0, comma));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  if (words.size() > kMostProcessors / 32) refuse();
  Processors set;
  for (std::size_t i = words.size(); i-- > 0;) {
    std::string_view word = words[i];
    if (word.empty() && words.size() > 1) continue;
    if (word.starts_with("0x")) word.remove_prefix(2);
    std::uint32_t bits = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), bits, 16);
    if (failure != std::errc{} || end != word.data() + word.size()) refuse();
    addWord(bits, words.size() - 1 - i, set);
  }
  return set;
}

bool contains(const Processors& whole, const Processors& part) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

Processors both(const Processors& a, const Processors& b) {
  Processors set;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(set));
  return set;
}

Processors either(const Processors& a, const Processors& b) {
  Processors set;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(set));
  return set;
}

Processors ownProcessors() {
  Mask mask{};
  Processors set;
  if (::sched_getaffinity(0, sizeof mask, kernelForm(mask)) != 0) return set;
  for (int i = 0; i < kMostProcessors; ++i)
    if (wordOf(mask, i) >> (i % kWordBits) & 1) set.push_back(i);
  return set;
}

Processors allowedProcessors() {
  Processors set;
  // The kernel restricts the requested set to what the thread's control group allows. A new thread
  // is used so that the caller's binding does not change.
  std::thread([&set] {
    Mask all;
    all.fill(~0ul);
    ::sched_setaffinity(0, sizeof all, kernelForm(all));
    set = ownProcessors();
  }).join();
  return set;
}

bool bindThread(const Processors& to) {
  Mask mask{};
  for (const int processor : to)
    if (processor < kMostProcessors) wordOf(mask, processor) |= 1ul << (processor % kWordBits);
  return ::sched_setaffinity(0, sizeof mask, kernelForm(mask)) == 0;
}

std::vector<NumaNode> numaNodes(const std::filesystem::path& sys) {
  std::vector<NumaNode> nodes;
  std::error_code none;
  for (std::filesystem::directory_iterator at(sys / "devices/system/node", none), end;
       !none && at != end; at.increment(none)) {
    const std::string folder = at->path().filename().string();
    if (!folder.starts_with("node")) continue;
    const std::string list = firstLine(at->path() / "cpulist");
    try {
      const auto number = parseInteger(folder.substr(4), folder, 0, kMostProcessors);
      nodes.push_back({static_cast<int>(number), parseProcessors(list, folder), at->path()});
    } catch (const Error&) { // not a folder of a node, or its list cannot be read
    }
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
  return nodes;
}

} // namespace rondo::base
