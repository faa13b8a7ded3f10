// Calls that are wrong on one rank only: that rank gets MPI's error, while the others, and later
// calls, work.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "operation.h"
#include "semantics.h"

namespace rondo::test {
namespace {

constexpr int kFew = 4;
constexpr int kMany = 40;
constexpr int kRoot = 0;

/// A collective whose blocks have `block` elements. One rank passes another number on the other
/// side, for the block that it sends to itself.
struct Uneven {
  Collective what;
  int block, other;

  bool scatters() const { return what == Collective::Scatter || what == Collective::Scatterv; }
  int odd(int ranks) const { return hasRoot(what) ? kRoot : ranks - 1; }
  /// Distance from one block to the next.
  int stride() const { return hasCounts(what) ? kMany : block; }
  int sent() const { return scatters() ? block : other; }
  int received() const { return scatters() ? other : block; }
};

struct Buffers {
  explicit Buffers(int ranks, int rank)
      : send(static_cast<std::size_t>(ranks * kMany)), receive(send.size(), -1) {
    for (std::size_t i = 0; i < send.size(); ++i) send[i] = rank * 1000 + static_cast<int>(i);
  }
  std::vector<int> send, receive;
};

Operation operationOf(const Uneven& call, Buffers& buffers, MPI_Comm comm) {
  const int p = sizeOf(comm);
  const int rank = rankIn(comm);
  Operation made;
  made.what = call.what;
  made.comm = comm;
  made.root = kRoot;
  made.send = {
      buffers.send.data(), std::vector<int>(static_cast<std::size_t>(p), call.block), {}, MPI_INT};
  made.receive = {buffers.receive.data(), made.send.counts, {}, MPI_INT};
  for (int r = 0; r < p; ++r) made.send.displacements.push_back(r * call.stride());
  made.receive.displacements = made.send.displacements;
  if (rank == call.odd(p)) {
    const int at = call.what == Collective::Alltoallv ? rank : 0;
    (call.scatters() ? made.receive : made.send).counts[static_cast<std::size_t>(at)] = call.other;
  }
  return made;
}

/// Expected contents of a rank's receive buffer.
std::vector<int> expected(const Uneven& call, int rank, int ranks) {
  std::vector<int> result(static_cast<std::size_t>(ranks * kMany), -1);
  const bool one_block = call.scatters();
  if (!one_block && hasRoot(call.what) && rank != kRoot) return result;
  for (int r = one_block ? rank : 0; r < (one_block ? rank + 1 : ranks); ++r) {
    bool own = r == call.odd(ranks);
    if (call.what == Collective::Alltoallv) own = own && r == rank;
    const int count = own ? std::min(call.sent(), call.received()) : call.block;
    const int from = one_block                            ? kRoot * 1000 + r * call.stride()
                     : call.what == Collective::Alltoallv ? r * 1000 + rank * call.stride()
                                                          : r * 1000;
    for (int i = 0; i < count; ++i)
      result[static_cast<std::size_t>((one_block ? 0 : r * call.stride()) + i)] = from + i;
  }
  return result;
}

int finish(const Operation& operation, bool immediate) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = call(called(), operation, immediate ? &request : nullptr);
  return code == MPI_SUCCESS && immediate ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

/// All ranks are at the same call of the communicator, blocking or not.
void requireOrder(MPI_Comm comm, const std::string& what) {
  const int p = sizeOf(comm);
  int one = 1;
  int sum = 0;
  int later = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&one, &later, 1, MPI_INT, MPI_SUM, comm, &request);
  const int code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  const int code_later = MPI_Wait(&request, MPI_STATUS_IGNORE);
  require(code == MPI_SUCCESS && sum == p, "Allreduce after " + what);
  require(code_later == MPI_SUCCESS && later == p, "Iallreduce after " + what);
}

void requireClass(int code, int error_class, const std::string& what) {
  require(errorClass(code) == error_class, what + ": class " + std::to_string(errorClass(code)) +
                                               ", expected " + std::to_string(error_class));
}

MPI_Comm duplicate() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

/// Error of this MPI library for a call whose own block has the same address on both sides.
int aliasClass(Collective what, bool root) {
#ifdef OPEN_MPI
  if (what == Collective::Allreduce) return MPI_ERR_BUFFER;
  return what == Collective::Reduce && root ? MPI_ERR_ARG : MPI_SUCCESS;
#else
  if (what == Collective::Alltoallv) return MPI_SUCCESS; // found only if the counts are the same
  return !hasRoot(what) || root ? MPI_ERR_BUFFER : MPI_SUCCESS;
#endif
}

} // namespace

/// A rank sends to itself more or less than it receives, which the other ranks do not see. Too much
/// is MPI_ERR_TRUNCATE on that rank, as in the MPI libraries; all other data arrive.
void checkRefused() {
  MPI_Comm comm = duplicate();
  const int p = sizeOf(comm);
  const int rank = rankIn(comm);
  for (const Collective what :
       {Collective::Gather, Collective::Gatherv, Collective::Scatter, Collective::Scatterv,
        Collective::Allgather, Collective::Allgatherv, Collective::Alltoallv})
    for (const bool immediate : {false, true})
      for (const auto& [block, other] : {std::array{kFew, kMany}, std::array{kMany, kFew}}) {
        const Uneven call{what, block, other};
        const std::string title = std::string(immediate ? "nonblocking call of " : "") +
                                  name(what) + " of " + std::to_string(block) + " and " +
                                  std::to_string(other);
        Buffers buffers(p, rank);
        const bool blamed = rank == call.odd(p) && call.sent() > call.received();
        requireClass(finish(operationOf(call, buffers, comm), immediate),
                     blamed ? MPI_ERR_TRUNCATE : MPI_SUCCESS, title);
        require(buffers.receive == expected(call, rank, p), title + ": other values");
        requireOrder(comm, title);
      }
  MPI_Comm_free(&comm);
}

/// In Bcast MPICH and Intel MPI accept a null type with no elements, so ranks may pass it where the
/// root passes another type.
void checkNothing() {
#ifndef OPEN_MPI
  MPI_Comm comm = duplicate();
  Operation bcast;
  bcast.what = Collective::Bcast;
  bcast.comm = comm;
  bcast.root = kRoot;
  bcast.receive = {nullptr, {0}, {0}, rankIn(comm) == kRoot ? MPI_INT : MPI_DATATYPE_NULL};
  for (const bool immediate : {false, true}) {
    requireClass(finish(bcast, immediate), MPI_SUCCESS, "Bcast of nothing");
    requireOrder(comm, "Bcast of nothing");
  }
  MPI_Comm_free(&comm);
#endif
}

/// The send buffer is the receive buffer: an error if this MPI library reports one, and no
/// other error.
void checkAliased() {
  MPI_Comm comm = duplicate();
  const int p = sizeOf(comm);
  const int rank = rankIn(comm);
  for (const Collective what : kCollectives) {
    if (what == Collective::Bcast || what == Collective::Barrier) continue;
    for (const bool immediate : {false, true}) {
      const std::string title =
          std::string(immediate ? "nonblocking call of " : "") + name(what) + " of one buffer";
      const Uneven call{what, kFew, kFew};
      Buffers buffers(p, rank);
      Operation operation = operationOf(call, buffers, comm);
      operation.op = MPI_SUM;
      // The block that stays on the rank is at the same address on both sides.
      const bool gathers = what == Collective::Gather || what == Collective::Gatherv ||
                           what == Collective::Allgather || what == Collective::Allgatherv;
      const int own = (hasRoot(what) ? kRoot : rank) * call.stride();
      operation.send.data = buffers.receive.data() + (gathers ? own : 0);
      operation.receive.data = buffers.receive.data() + (call.scatters() ? own : 0);
      requireClass(finish(operation, immediate), aliasClass(what, rank == kRoot), title);
      requireOrder(comm, title);
    }
  }
  MPI_Comm_free(&comm);
}

} // namespace rondo::test
