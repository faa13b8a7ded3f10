// Prepares a call as the communicator does, for tests without a communicator.
#include "kernels/cuda/plan/collective_call.h"

#include "engine/scaling.h"

namespace rondo::test {

Call callOf(const plan::Algorithm& algorithm, const CollectiveCase& one, int ranks, int parameter) {
  Call call{std::string(algorithm.name) + ", " + std::to_string(ranks) + " ranks, " + one.text(),
            {}};
  for (int rank = 0; rank < ranks; ++rank) {
    Part& part = call.parts.emplace_back();
    part.plan = algorithm.build({.collective = one.collective,
                                 .ranks = ranks,
                                 .root = one.root,
                                 .parameter = parameter,
                                 .multicast = true},
                                rank);
    const bool reducing = reduces(one.collective);
    part.shape = {one.count, one.type, reducing ? one.op.kind() : ReduceOp::Kind::sum};
    auto buffers = std::make_shared<CollectiveBuffers>(one, rank, ranks);
    part.input = buffers->input();
    part.output = buffers->output();
    part.before = [buffers] { buffers->fill(); };
    part.after = [buffers] { return buffers->wrong(); };
    if (!reducing) continue;
    const engine::Scaling scaling = engine::scalingOf(one.op, one.type, ranks);
    part.factor = scaling.factor;
    part.divisor = static_cast<std::int32_t>(scaling.divisor);
  }
  return call;
}

} // namespace rondo::test
