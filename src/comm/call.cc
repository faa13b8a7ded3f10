// What makes a call valid, and how it is told to people and to other ranks.
#include "comm/call.h"

#include <limits>

#include "rondo/error.h"

namespace rondo::comm {

namespace {

std::string_view titleOf(Collective collective) {
  switch (collective) {
    case Collective::allreduce: return "AllReduce";
    case Collective::reduce: return "Reduce";
    case Collective::reducescatter: return "ReduceScatter";
    case Collective::broadcast: return "Broadcast";
    case Collective::scatter: return "Scatter";
    case Collective::gather: return "Gather";
    case Collective::allgather: return "AllGather";
    case Collective::alltoall: return "AllToAll";
    case Collective::barrier: return "Barrier";
    case Collective::sendrecv: break;
  }
  return "Send/Recv";
}

[[noreturn]] void refuse(const Call& call, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, title(call) + ": " + why);
}

/// How the two buffers of a rank may coincide.
struct Extent {
  std::size_t input_blocks = 0, output_blocks = 0;
  std::size_t input_at = 0, output_at = 0; ///< block of the other buffer that in place means
};

Extent extentOf(const Call& call, int rank, int size) {
  const auto n = static_cast<std::size_t>(size), r = static_cast<std::size_t>(rank);
  const bool root = rank == call.root;
  switch (call.collective) {
    case Collective::allreduce: return {1, 1};
    case Collective::reduce: return {1, root ? 1u : 0u};
    case Collective::broadcast: return {root ? 1u : 0u, 1};
    case Collective::reducescatter: return {n, 1, r, 0};
    case Collective::scatter: return {root ? n : 0, 1, r, 0};
    case Collective::allgather: return {1, n, 0, r};
    case Collective::gather: return {1, root ? n : 0, 0, r};
    case Collective::alltoall: return {n, n};
    case Collective::barrier: return {};
    case Collective::sendrecv: break;
  }
  return call.sending ? Extent{1, 0} : Extent{0, 1};
}

} // namespace

std::string title(const Call& call) {
  if (call.collective == Collective::sendrecv) return call.sending ? "Send" : "Recv";
  return std::string(titleOf(call.collective));
}

void validate(const Call& call, int rank, int size) {
  if (static_cast<std::size_t>(call.type) >= kDataTypeCount)
    refuse(call, "unknown data type " + std::to_string(static_cast<int>(call.type)));
  if (reduces(call.collective)) {
    if (static_cast<std::size_t>(call.op.kind()) >= ReduceOp::kKindCount)
      refuse(call, "unknown operator " + std::to_string(static_cast<int>(call.op.kind())));
    if (!call.op.supports(call.type))
      refuse(call, "operator " + std::string(name(call.op)) + " is not defined on " +
                       std::string(name(call.type)));
  }
  const bool point_to_point = call.collective == Collective::sendrecv;
  if ((point_to_point || hasRoot(call.collective)) && (call.root < 0 || call.root >= size))
    refuse(call, std::string(point_to_point ? "peer " : "root ") + std::to_string(call.root) +
                     " is not a rank of this communicator (0 to " + std::to_string(size - 1) + ")");

  const Extent extent = extentOf(call, rank, size);
  const std::size_t element = sizeOf(call.type);
  const std::size_t most =
      std::numeric_limits<std::ptrdiff_t>::max() / element / static_cast<std::size_t>(size);
  if (call.count > most)
    refuse(call, "count " + std::to_string(call.count) + " exceeds the address space");
  const std::size_t block = call.count * element;
  const std::size_t input_bytes = extent.input_blocks * block;
  const std::size_t output_bytes = extent.output_blocks * block;
  if (input_bytes > 0 && !call.input)
    refuse(call, "input is null, count is " + std::to_string(call.count));
  if (output_bytes > 0 && !call.output)
    refuse(call, "output is null, count is " + std::to_string(call.count));
  if (input_bytes == 0 || output_bytes == 0) return;

  const auto in = reinterpret_cast<std::uintptr_t>(call.input);
  const auto out = reinterpret_cast<std::uintptr_t>(call.output);
  if (in >= out + output_bytes || out >= in + input_bytes) return;
  if (call.collective == Collective::alltoall)
    refuse(call, "input and output overlap; it cannot be done in place");
  if (in + extent.input_at * block != out + extent.output_at * block)
    refuse(call, "input and output overlap otherwise than in place");
}

std::uint64_t sign(const Call& call, std::uint64_t sequence) {
  const bool shared_root = hasRoot(call.collective);
  const std::uint64_t count = (call.count ^ (call.count >> 32)) & 0xffffffffu;
  return static_cast<std::uint64_t>(call.collective) << 60 |
         static_cast<std::uint64_t>(call.type) << 56 |
         (reduces(call.collective) ? static_cast<std::uint64_t>(call.op.kind()) : 0) << 52 |
         (shared_root ? static_cast<std::uint64_t>(call.root) & 0xfff : 0) << 40 |
         (sequence & 0xff) << 32 | count;
}

std::string describe(std::uint64_t signature, std::uint64_t near) {
  const auto field = [&](int shift, std::uint64_t mask) { return (signature >> shift) & mask; };
  const std::uint64_t collective = field(60, 0xf), type = field(56, 0xf), op = field(52, 0xf);
  if (collective >= kCollectiveCount || type >= kDataTypeCount || op >= ReduceOp::kKindCount)
    return "no call of this library";
  const auto what = static_cast<Collective>(collective);
  const auto apart = static_cast<std::int8_t>(field(32, 0xff) - near);
  const std::uint64_t sequence = near + static_cast<std::uint64_t>(std::int64_t{apart});
  std::string text = std::string(titleOf(what)) + " #" + std::to_string(sequence);
  if (what == Collective::barrier) return text;
  text += " (";
  if (reduces(what)) text += std::string(name(kReduceOps[op])) + " of ";
  text +=
      std::to_string(field(0, 0xffffffff)) + " " + std::string(name(static_cast<DataType>(type)));
  if (hasRoot(what)) text += ", root " + std::to_string(field(40, 0xfff));
  return text + ")";
}

} // namespace rondo::comm
