// Sets of processors, as the system numbers them, and the NUMA nodes that they belong to.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::base {

/// Numbers of processors, ascending, each once.
using Processors = std::vector<int>;

/// Above all that a machine has; no list or mask may name more.
inline constexpr int kMostProcessors = 1 << 16;

/// "0-3,8", as the kernel writes it. "" for none.
std::string text(const Processors& set);
/// The inverse; blanks at the end are taken, and numbers in any order. Throws
/// Error(invalid_argument) that begins with `what` and names what is no number or range.
Processors parseProcessors(std::string_view text, std::string_view what);
/// A mask as hwloc writes it: "0x000000ff,0xffffffff", the highest 32 bits first, empty words for
/// zeros. Throws Error(invalid_argument) that begins with `what`.
Processors parseMask(std::string_view text, std::string_view what);

/// Whether all of `part` are in `whole`.
bool contains(const Processors& whole, const Processors& part);
Processors both(const Processors& a, const Processors& b);
Processors either(const Processors& a, const Processors& b);

/// Those that the calling thread may run on; empty if the system does not tell.
Processors ownProcessors();
/// Those that the system lets this process use, however the calling thread is bound; as
/// ownProcessors() if the system does not tell.
Processors allowedProcessors();
/// Restricts the calling thread, and what it starts, to these processors; false if the system
/// refuses.
bool bindThread(const Processors& to);

struct NumaNode {
  int number = 0;
  Processors processors;        ///< none: memory only
  std::filesystem::path folder; ///< what the kernel says of it
};
/// Of this machine, by their numbers; none where the kernel does not tell (in some containers).
/// `sys`: where its files are.
std::vector<NumaNode> numaNodes(const std::filesystem::path& sys = "/sys");

} // namespace rondo::base
