// The argument lists of the collectives.
#include "operation.h"

#include <cstdlib>

namespace rondo::test {

const char* name(Collective what) {
  switch (what) {
#define COMPAT_CASE(blocking, immediate) \
  case Collective::blocking: return #blocking;
    COMPAT_COLLECTIVES(COMPAT_CASE)
#undef COMPAT_CASE
  }
  std::abort();
}

bool reduces(Collective what) {
  return what == Collective::Allreduce || what == Collective::Reduce ||
         what == Collective::Reduce_scatter || what == Collective::Reduce_scatter_block ||
         what == Collective::Scan || what == Collective::Exscan;
}

bool hasRoot(Collective what) {
  return what == Collective::Reduce || what == Collective::Bcast || what == Collective::Scatter ||
         what == Collective::Scatterv || what == Collective::Gather || what == Collective::Gatherv;
}

bool hasCounts(Collective what) {
  return what == Collective::Scatterv || what == Collective::Gatherv ||
         what == Collective::Allgatherv || what == Collective::Alltoallv ||
         what == Collective::Reduce_scatter;
}

void Operation::useLargeCounts() {
  large = kHasLargeCounts;
  for (Side* side : {&send, &receive}) {
    side->large_counts.assign(side->counts.begin(), side->counts.end());
    side->large_displacements.assign(side->displacements.begin(), side->displacements.end());
  }
}

namespace {

const std::vector<int>& counts(const Side& side, const Functions&) { return side.counts; }
const std::vector<int>& places(const Side& side, const Functions&) { return side.displacements; }
#if MPI_VERSION >= 4
const std::vector<MPI_Count>& counts(const Side& side, const LargeFunctions&) {
  return side.large_counts;
}
const std::vector<MPI_Aint>& places(const Side& side, const LargeFunctions&) {
  return side.large_displacements;
}
#endif

template <typename Forms>
int callForm(const Forms& l, const Operation& operation, MPI_Request* request) {
  const Side& s = operation.send;
  const Side& r = operation.receive;
  const auto* const s_counts = counts(s, l).data();
  const auto* const r_counts = counts(r, l).data();
  const auto* const s_at = places(s, l).data();
  const auto* const r_at = places(r, l).data();
  const auto s_count = s.counts.empty() ? 0 : *s_counts;
  const auto r_count = r.counts.empty() ? 0 : *r_counts;
  const MPI_Op op = operation.op;
  const int root = operation.root;
  const MPI_Comm comm = operation.comm;
  const auto make = [request](auto blocking, auto immediate, auto... arguments) {
    return request == nullptr ? blocking(arguments...) : immediate(arguments..., request);
  };
  switch (operation.what) {
    case Collective::Allreduce:
      return make(l.Allreduce, l.Iallreduce, s.data, r.data, r_count, r.type, op, comm);
    case Collective::Reduce:
      return make(l.Reduce, l.Ireduce, s.data, r.data, r_count, r.type, op, root, comm);
    case Collective::Scan: return make(l.Scan, l.Iscan, s.data, r.data, r_count, r.type, op, comm);
    case Collective::Exscan:
      return make(l.Exscan, l.Iexscan, s.data, r.data, r_count, r.type, op, comm);
    case Collective::Bcast: return make(l.Bcast, l.Ibcast, r.data, r_count, r.type, root, comm);
    case Collective::Scatter:
      return make(l.Scatter, l.Iscatter, s.data, s_count, s.type, r.data, r_count, r.type, root,
                  comm);
    case Collective::Scatterv:
      return make(l.Scatterv, l.Iscatterv, s.data, s_counts, s_at, s.type, r.data, r_count, r.type,
                  root, comm);
    case Collective::Gather:
      return make(l.Gather, l.Igather, s.data, s_count, s.type, r.data, r_count, r.type, root,
                  comm);
    case Collective::Gatherv:
      return make(l.Gatherv, l.Igatherv, s.data, s_count, s.type, r.data, r_counts, r_at, r.type,
                  root, comm);
    case Collective::Allgather:
      return make(l.Allgather, l.Iallgather, s.data, s_count, s.type, r.data, r_count, r.type,
                  comm);
    case Collective::Allgatherv:
      return make(l.Allgatherv, l.Iallgatherv, s.data, s_count, s.type, r.data, r_counts, r_at,
                  r.type, comm);
    case Collective::Reduce_scatter:
      return make(l.Reduce_scatter, l.Ireduce_scatter, s.data, r.data, r_counts, r.type, op, comm);
    case Collective::Reduce_scatter_block:
      return make(l.Reduce_scatter_block, l.Ireduce_scatter_block, s.data, r.data, r_count, r.type,
                  op, comm);
    case Collective::Alltoall:
      return make(l.Alltoall, l.Ialltoall, s.data, s_count, s.type, r.data, r_count, r.type, comm);
    case Collective::Alltoallv:
      return make(l.Alltoallv, l.Ialltoallv, s.data, s_counts, s_at, s.type, r.data, r_counts, r_at,
                  r.type, comm);
    case Collective::Barrier: return make(l.Barrier, l.Ibarrier, comm);
  }
  std::abort();
}

} // namespace

int call(const Library& library, const Operation& operation, MPI_Request* request) {
#if MPI_VERSION >= 4
  if (operation.large) return callForm(library.large, operation, request);
#endif
  return callForm<Functions>(library, operation, request);
}

} // namespace rondo::test
