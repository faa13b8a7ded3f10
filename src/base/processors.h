// Sets of processors, by the system's numbers, and the NUMA nodes that they belong to.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::base {

/// Numbers of processors, ascending, without duplicates.
using Processors = std::vector<int>;

/// More than any machine has; lists and masks with larger numbers are errors.
inline constexpr int kMostProcessors = 1 << 16;

/// The set as the kernel writes it: "0-3,8". An empty set is "".
std::string text(const Processors& set);
/// Inverse of text(); accepts blanks at the end, and numbers in any order. Throws
/// Error(invalid_argument) that begins with `what` and quotes the invalid part.
Processors parseProcessors(std::string_view text, std::string_view what);
/// Parses a mask as hwloc writes it: "0x000000ff,0xffffffff", the highest 32 bits first; an empty
/// word is zero. Throws Error(invalid_argument) that begins with `what`.
Processors parseMask(std::string_view text, std::string_view what);

/// Whether `whole` contains all of `part`.
bool contains(const Processors& whole, const Processors& part);
Processors both(const Processors& a, const Processors& b);
Processors either(const Processors& a, const Processors& b);

/// Processors that the calling thread may run on; empty if the system does not say.
Processors ownProcessors();
/// Processors that this process may use, even if the calling thread is bound to fewer; the same as
/// ownProcessors() if the system does not say.
Processors allowedProcessors();
/// Restricts the calling thread, and all threads and processes that it starts later, to these
/// processors. Returns false if the system refuses.
bool bindThread(const Processors& to);

struct NumaNode {
  int number = 0;
  Processors processors;        ///< empty: the node has memory only
  std::filesystem::path folder; ///< the node's folder in /sys
};
/// The NUMA nodes of this machine, by number; empty if the kernel does not list them (in some
/// containers). `sys`: where /sys is, for tests.
std::vector<NumaNode> numaNodes(const std::filesystem::path& sys = "/sys");

} // namespace rondo::base
