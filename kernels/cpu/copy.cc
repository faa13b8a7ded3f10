// The reduction of one input: a copy to every output.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/families.h"

namespace rondo::kernels {
namespace {

/// Half of the smallest first-level cache in use (32 KiB): a block is still there when the second
/// output wants it.
constexpr std::size_t kBlockBytes = 16 * 1024;

} // namespace

void copy(void* const* outputs, std::size_t output_count, const void* input, std::size_t bytes) {
  if (bytes == 0) return; // pointers may be null then
  const std::size_t block = output_count == 1 ? bytes : kBlockBytes;
  for (std::size_t begin = 0; begin < bytes; begin += block) {
    const std::size_t size = std::min(block, bytes - begin);
    const std::byte* from = static_cast<const std::byte*>(input) + begin;
    for (std::size_t j = 0; j < output_count; ++j) {
      if (outputs[j] == input) continue;
      std::memcpy(static_cast<std::byte*>(outputs[j]) + begin, from, size);
    }
  }
}

} // namespace rondo::kernels
