// What the communicator does between a call and its run, for tests without one.
#include "plan_kernel/collective_call.h"

namespace rondo::test {

Call callOf(const plan::Algorithm& algorithm, const CollectiveCase& one, int ranks, int parameter) {
  Call call{std::string(algorithm.name) + ", " + std::to_string(ranks) + " ranks, " + one.text(),
            {}};
  for (int rank = 0; rank < ranks; ++rank) {
    Part& part = call.parts.emplace_back();
    part.plan = algorithm.build({one.collective, ranks, one.root, parameter}, rank);
    const bool reducing = reduces(one.collective);
    part.shape = {one.count, one.type, reducing ? one.op.kind() : ReduceOp::Kind::sum};
    auto buffers = std::make_shared<CollectiveBuffers>(one, rank, ranks);
    part.input = buffers->input();
    part.output = buffers->output();
    part.before = [buffers] { buffers->fill(); };
    part.after = [buffers] { return buffers->wrong(); };
    if (!reducing) continue;
    if (one.op.kind() == ReduceOp::Kind::premul_sum) part.factor = one.op.factor();
    if (one.op.kind() != ReduceOp::Kind::avg) continue;
    if (isFloat(one.type)) part.factor = 1.0 / ranks;
    else part.divisor = ranks;
  }
  return call;
}

} // namespace rondo::test
