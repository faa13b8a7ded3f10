// Makes inputs and calls, and checks results against a reduction in rank order.
#include "support/collective_case.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/reduce.h"
#include "tests/kernels/reference.h"

namespace rondo::test {

namespace {

constexpr std::size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

unsigned valueOf(const CollectiveCase& call, int rank, int block, std::size_t i, int ranks) {
  const auto mixed = static_cast<unsigned>((i * 2654435761u + static_cast<unsigned>(rank) * 40503u +
                                            static_cast<unsigned>(block) * 9973u) >>
                                           7);
  if (!reduces(call.collective)) return mixed % 8;
  const bool narrow = sizeOf(call.type) == 1;
  switch (call.op.kind()) {
    case ReduceOp::Kind::prod: // two ranks have a 2, the others 1
      return i % static_cast<unsigned>(ranks) == static_cast<unsigned>(rank) ||
                     (i + 1) % static_cast<unsigned>(ranks) == static_cast<unsigned>(rank)
                 ? 2
                 : 1;
    case ReduceOp::Kind::premul_sum: return 2 * (mixed % (narrow ? 2 : 4));
    case ReduceOp::Kind::avg: // multiples of 4 stay exact for a power of two of ranks
      return narrow ? (ranks <= 2 ? mixed % 2 : 4) : mixed % 4;
    case ReduceOp::Kind::sum: return mixed % (narrow ? 2 : 4);
    default: return mixed % 8;
  }
}

/// A buffer with guard bytes before and after it.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuard, kGuardByte) {}
  std::byte* data() { return memory_.data() + kGuard; }
  std::span<std::byte> all() { return memory_; }
  void wipe() { std::fill(memory_.begin(), memory_.end(), kGuardByte); }
  bool intact() const {
    for (std::size_t i = 0; i < kGuard; ++i)
      if (memory_[i] != kGuardByte || memory_[kGuard + bytes_ + i] != kGuardByte) return false;
    return true;
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> memory_;
};

struct Layout {
  int inputs = 1, outputs = 1;
  /// in place: the input block and the output block that are the same memory
  int alias_input_block = 0, alias_output_block = 0;
};

Layout layoutOf(const CollectiveCase& call, int rank, int ranks) {
  // sendrecv is a ring: to the right, from the left
  const detail::CollectiveTraits& of = traits(call.collective);
  return {static_cast<int>(of.input.count(ranks, rank, call.root)),
          static_cast<int>(of.output.count(ranks, rank, call.root)),
          static_cast<int>(of.input.own(rank)), static_cast<int>(of.output.own(rank))};
}

/// The reduction of one block over ranks 0 to end - 1, in rank order.
std::vector<std::byte> reduced(const CollectiveCase& call, int block, int end, int ranks) {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<const void*> pointers;
  const bool average = call.op.kind() == ReduceOp::Kind::avg;
  for (int r = 0; r < end; ++r) {
    auto& input = inputs.emplace_back(inputBlock(call, r, block, ranks));
    const double factor = average && isFloat(call.type) ? 1.0 / ranks : call.op.factor();
    if (factor != 1.0)
      kernels::scaleFunction(call.type)(input.data(), input.data(), call.count, factor);
  }
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<std::byte> output(call.count * sizeOf(call.type));
  void* out = output.data();
  kernels::reduceFunction(call.type, call.op.kind())(&out, 1, pointers.data(), pointers.size(),
                                                     call.count);
  if (average && !isFloat(call.type)) kernels::divideIntegers(out, call.count, call.type, ranks);
  return output;
}

std::vector<std::byte> expectedBlock(const CollectiveCase& call, int rank, int block, int ranks) {
  switch (call.collective) {
    case Collective::allreduce:
    case Collective::reduce: return reduced(call, 0, ranks, ranks);
    case Collective::reducescatter: return reduced(call, rank, ranks, ranks);
    case Collective::scan: return reduced(call, 0, rank + 1, ranks);
    case Collective::exclusivescan: return reduced(call, 0, rank, ranks);
    case Collective::broadcast: return inputBlock(call, call.root, 0, ranks);
    case Collective::scatter: return inputBlock(call, call.root, rank, ranks);
    case Collective::allgather:
    case Collective::gather: return inputBlock(call, block, 0, ranks);
    case Collective::alltoall: return inputBlock(call, block, rank, ranks);
    case Collective::barrier:
    case Collective::sendrecv: break;
  }
  return inputBlock(call, (rank + ranks - 1) % ranks, 0, ranks);
}

void callBlocking(const CollectiveCase& call, Communicator& comm, const void* in, void* out) {
  switch (call.collective) {
    case Collective::allreduce: return comm.allReduce(in, out, call.count, call.type, call.op);
    case Collective::reduce: return comm.reduce(in, out, call.count, call.type, call.op, call.root);
    case Collective::reducescatter:
      return comm.reduceScatter(in, out, call.count, call.type, call.op);
    case Collective::broadcast: return comm.broadcast(in, out, call.count, call.type, call.root);
    case Collective::scatter: return comm.scatter(in, out, call.count, call.type, call.root);
    case Collective::gather: return comm.gather(in, out, call.count, call.type, call.root);
    case Collective::allgather: return comm.allGather(in, out, call.count, call.type);
    case Collective::alltoall: return comm.allToAll(in, out, call.count, call.type);
    case Collective::scan: return comm.scan(in, out, call.count, call.type, call.op);
    case Collective::exclusivescan:
      return comm.exclusiveScan(in, out, call.count, call.type, call.op);
    case Collective::barrier: return comm.barrier();
    case Collective::sendrecv: return call.start(comm, in, out).wait();
  }
}

} // namespace

std::vector<std::byte> inputBlock(const CollectiveCase& call, int rank, int block, int ranks) {
  std::array<std::uint64_t, 8> elements{}; // 0 to 7, which are exact in every type
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = elementOf(call.type, static_cast<double>(i));
  const std::size_t size = sizeOf(call.type);
  std::vector<std::byte> bytes(call.count * size);
  for (std::size_t i = 0; i < call.count; ++i) // the machine is little endian
    std::memcpy(bytes.data() + i * size, &elements.at(valueOf(call, rank, block, i, ranks)), size);
  return bytes;
}

Work CollectiveCase::start(Communicator& comm, const void* in, void* out) const {
  switch (collective) {
    case Collective::allreduce: return comm.allReduceAsync(in, out, count, type, op);
    case Collective::reduce: return comm.reduceAsync(in, out, count, type, op, root);
    case Collective::reducescatter: return comm.reduceScatterAsync(in, out, count, type, op);
    case Collective::broadcast: return comm.broadcastAsync(in, out, count, type, root);
    case Collective::scatter: return comm.scatterAsync(in, out, count, type, root);
    case Collective::gather: return comm.gatherAsync(in, out, count, type, root);
    case Collective::allgather: return comm.allGatherAsync(in, out, count, type);
    case Collective::alltoall: return comm.allToAllAsync(in, out, count, type);
    case Collective::scan: return comm.scanAsync(in, out, count, type, op);
    case Collective::exclusivescan: return comm.exclusiveScanAsync(in, out, count, type, op);
    case Collective::barrier: return comm.barrierAsync();
    case Collective::sendrecv: break;
  }
  Group group;
  comm.sendAsync(in, count, type, (comm.rank() + 1) % comm.size());
  comm.recvAsync(out, count, type, (comm.rank() + comm.size() - 1) % comm.size());
  return group.start();
}

std::string CollectiveCase::text() const {
  std::string text = std::string(name(collective)) + " of " + std::to_string(count) + " " +
                     std::string(name(type));
  if (reduces(collective)) text += " " + std::string(name(op));
  if (hasRoot(collective)) text += " root " + std::to_string(root);
  return text + (in_place ? " in place" : "") + (async ? " async" : "");
}

struct CollectiveBuffers::Memory {
  Memory(const CollectiveCase& c, int r, int n)
      : call(c),
        rank(r),
        ranks(n),
        layout(layoutOf(c, r, n)),
        block(c.count * sizeOf(c.type)),
        alias(c.in_place && layout.inputs > 0 && layout.outputs > 0),
        output_is_larger(layout.outputs > layout.inputs),
        input(alias && output_is_larger ? 0 : static_cast<std::size_t>(layout.inputs) * block),
        output(alias && !output_is_larger ? 0 : static_cast<std::size_t>(layout.outputs) * block) {}

  std::byte* in() {
    return alias && output_is_larger
               ? output.data() + static_cast<std::size_t>(layout.alias_output_block) * block
               : input.data();
  }
  std::byte* out() {
    return alias && !output_is_larger
               ? input.data() + static_cast<std::size_t>(layout.alias_input_block) * block
               : output.data();
  }

  const CollectiveCase call;
  const int rank, ranks;
  const Layout layout;
  const std::size_t block;
  const bool alias, output_is_larger;
  Guarded input, output;
};

CollectiveBuffers::CollectiveBuffers(const CollectiveCase& call, int rank, int ranks)
    : memory_(std::make_unique<Memory>(call, rank, ranks)) {
  fill();
}
CollectiveBuffers::~CollectiveBuffers() = default;

void CollectiveBuffers::fill() {
  Memory& m = *memory_;
  m.input.wipe();
  m.output.wipe();
  for (int b = 0; b < m.layout.inputs; ++b) {
    const auto bytes = inputBlock(m.call, m.rank, b, m.ranks);
    if (m.block > 0)
      std::memcpy(m.in() + static_cast<std::size_t>(b) * m.block, bytes.data(), m.block);
  }
}

const void* CollectiveBuffers::input() const {
  return memory_->layout.inputs > 0 && memory_->call.count > 0 ? memory_->in() : nullptr;
}
void* CollectiveBuffers::output() const {
  return memory_->layout.outputs > 0 && memory_->call.count > 0 ? memory_->out() : nullptr;
}

std::vector<std::span<std::byte>> CollectiveBuffers::memory() const {
  return {memory_->input.all(), memory_->output.all()};
}

std::string CollectiveBuffers::wrong() const {
  Memory& m = *memory_;
  for (int b = 0; b < m.layout.outputs && m.block > 0; ++b) {
    const auto expected = expectedBlock(m.call, m.rank, b, m.ranks);
    const std::byte* got = m.out() + static_cast<std::size_t>(b) * m.block;
    if (std::memcmp(got, expected.data(), m.block) == 0) continue;
    std::size_t at = 0;
    while (got[at] == expected[at]) ++at;
    return m.call.text() + ": block " + std::to_string(b) + " differs from element " +
           std::to_string(at / sizeOf(m.call.type)) + " on";
  }
  if (!m.input.intact() || !m.output.intact()) return m.call.text() + ": wrote outside its buffers";
  if (!m.alias)
    for (int b = 0; b < m.layout.inputs && m.block > 0; ++b)
      if (std::memcmp(m.in() + static_cast<std::size_t>(b) * m.block,
                      inputBlock(m.call, m.rank, b, m.ranks).data(), m.block) != 0)
        return m.call.text() + ": changed its input";
  return {};
}

std::string CollectiveCase::run(Communicator& comm) const {
  const CollectiveBuffers buffers(*this, comm.rank(), comm.size());
  if (async) {
    start(comm, buffers.input(), buffers.output()).wait();
  } else {
    callBlocking(*this, comm, buffers.input(), buffers.output());
  }
  return buffers.wrong();
}

} // namespace rondo::test
