// Computes the size and the shape of calls for the recorder.
#include "comm/record.h"

#include <algorithm>

namespace rondo::comm {

namespace {

/// A call's size: all ranks' blocks, as `rondo bench` counts; of v-forms, this rank's larger
/// buffer.
std::uint64_t bytesOf(const Call& call, const Buffers& buffers, int ranks) {
  if (call.layout) return std::max(buffers.input_bytes, buffers.output_bytes);
  const int blocks = traits(call.collective).perRank() ? ranks : 1;
  return call.count * sizeOf(call.type) * static_cast<std::uint64_t>(blocks);
}

} // namespace

observe::CallFacts recordOf(const Call& call, const CallCache::Known& known, std::uint8_t algorithm,
                            int ranks) {
  observe::Shape shape{.collective = call.collective, .type = call.type, .algorithm = algorithm};
  if (reduces(call.collective)) shape.op = call.op.kind();
  shape.uneven = call.layout != nullptr;
  shape.sending = call.sending;
  shape.root = static_cast<std::uint16_t>(call.root);
  return {shape.packed(), countOf(call), bytesOf(call, known.buffers, ranks)};
}

} // namespace rondo::comm
