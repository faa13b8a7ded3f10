// MPI_Allreduce, Reduce, Reduce_scatter, Reduce_scatter_block, Scan, Exscan and their nonblocking
// forms.
//
// They are taken over if Rondo supports both operator and type, which MPI requires to be the same
// on all ranks.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "compat/mpi/run.h"

namespace rondo::compat {

namespace {

/// The count of a call that MPI refuses may be negative.
std::size_t positive(std::ptrdiff_t count) {
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(count, 0));
}

/// Common part of all reductions. Derived types and other operators are left to the MPI library.
struct Reducing {
  const void* send;
  void* receive;
  MPI_Datatype type;
  MPI_Op op;
  Reduction reduction{};

  Reason refuse() {
    reduction = reductionOf(type, op);
    return reduction.refused;
  }
  bool inPlace() const { return send == MPI_IN_PLACE; }
  Elements elements(const void* buffer, std::ptrdiff_t count) const {
    const std::size_t bytes = reduction.bytes();
    return {const_cast<void*>(buffer),
            static_cast<std::size_t>(count),
            type,
            {bytes, static_cast<MPI_Aint>(bytes), true, true}};
  }
  const void* input(std::ptrdiff_t count, Staging& staging) const {
    return staging.readable(elements(inPlace() ? receive : send, count));
  }
  /// Address for the result of a reduce-scatter. In place, MPI puts it at the begin of the buffer
  /// on every rank.
  void* scattered(int rank, std::ptrdiff_t count, Staging& staging) const {
    const Elements own = elements(receive, count);
    return inPlace() && rank != 0 ? staging.delivered(own) : staging.writable(own);
  }
  /// MPICH's error if both buffers are the same.
  int aliasError(std::ptrdiff_t count) const {
    return !kForOpenMpi && send == receive && count > 0 ? MPI_ERR_BUFFER : MPI_SUCCESS;
  }
  std::size_t bytesOf(std::size_t count) const {
    return reduction.refused == Reason::none ? count * reduction.bytes()
                                             : compat::bytesOf(count, type);
  }
};

struct Allreduce : Reducing {
  static constexpr Function kFunction = Function::allreduce;
  std::ptrdiff_t count;

  using Reducing::refuse;
  Reason refuse(const Counterpart&) const {
    return count < 0 || receive == MPI_IN_PLACE ? Reason::erroneous : Reason::none;
  }
  int aliasError(const Counterpart&) const {
    // Open MPI accepts it for a single element.
    return send == receive && count > (kForOpenMpi ? 1 : 0) ? MPI_ERR_BUFFER : MPI_SUCCESS;
  }
  std::size_t bytes(int, int) const { return bytesOf(positive(count)); }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    mode.make(at, Collective::allreduce, input(count, staging),
              staging.writable(elements(receive, count)),
              static_cast<std::size_t>(count) * reduction.factor, reduction.type, reduction.op);
  }
};

struct Reduce : Reducing {
  static constexpr Function kFunction = Function::reduce;
  std::ptrdiff_t count;
  int root;

  using Reducing::refuse;
  Reason refuse(const Counterpart& at) const {
    const bool wrong_place = at.rank == root ? receive == MPI_IN_PLACE : inPlace();
    return count < 0 || root < 0 || root >= at.size || wrong_place ? Reason::erroneous
                                                                   : Reason::none;
  }
  int aliasError(const Counterpart& at) const {
    if (at.rank != root || send != receive || count == 0) return MPI_SUCCESS;
    return kForOpenMpi ? MPI_ERR_ARG : MPI_ERR_BUFFER;
  }
  std::size_t bytes(int, int) const { return bytesOf(positive(count)); }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    mode.make(at, Collective::reduce, input(count, staging),
              at.rank == root ? staging.writable(elements(receive, count)) : nullptr,
              static_cast<std::size_t>(count) * reduction.factor, reduction.type, reduction.op,
              root);
  }
};

/// Scan, and Exscan, whose receive buffer has no meaning on rank 0 except as the input in place.
template <bool exclusive>
struct Prefix : Reducing {
  static constexpr Function kFunction = exclusive ? Function::exscan : Function::scan;
  std::ptrdiff_t count;

  using Reducing::refuse;
  Reason refuse(const Counterpart&) const {
    return count < 0 || receive == MPI_IN_PLACE ? Reason::erroneous : Reason::none;
  }
  int aliasError(const Counterpart&) const { return Reducing::aliasError(count); }
  std::size_t bytes(int, int) const { return bytesOf(positive(count)); }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const bool receives = !exclusive || at.rank > 0;
    mode.make(at, exclusive ? Collective::exclusivescan : Collective::scan, input(count, staging),
              receives ? staging.writable(elements(receive, count)) : nullptr,
              static_cast<std::size_t>(count) * reduction.factor, reduction.type, reduction.op);
  }
};
using Scan = Prefix<false>;
using Exscan = Prefix<true>;

struct ReduceScatterBlock : Reducing {
  static constexpr Function kFunction = Function::reduce_scatter_block;
  std::ptrdiff_t count;

  using Reducing::refuse;
  Reason refuse(const Counterpart&) const {
    return count < 0 || receive == MPI_IN_PLACE ? Reason::erroneous : Reason::none;
  }
  int aliasError(const Counterpart&) const { return Reducing::aliasError(count); }
  std::size_t bytes(int, int size) const {
    return bytesOf(positive(count) * static_cast<std::size_t>(size));
  }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    mode.make(at, Collective::reducescatter, input(count * at.size, staging),
              scattered(at.rank, count, staging),
              static_cast<std::size_t>(count) * reduction.factor, reduction.type, reduction.op);
  }
};

struct ReduceScatter : Reducing {
  static constexpr Function kFunction = Function::reduce_scatter;
  Table counts;

  using Reducing::refuse;
  Reason refuse(const Counterpart& at) const {
    const bool wrong = !counts || receive == MPI_IN_PLACE || counts.anyNegative(at.size);
    return wrong ? Reason::erroneous : Reason::none;
  }
  int aliasError(const Counterpart& at) const { return Reducing::aliasError(total(at.size)); }
  std::ptrdiff_t total(int size) const {
    std::ptrdiff_t sum = 0;
    for (int r = 0; r < size; ++r) sum += counts[r];
    return sum;
  }
  std::size_t bytes(int, int size) const {
    std::size_t sum = 0;
    for (int r = 0; counts && r < size; ++r) sum += positive(counts[r]);
    return bytesOf(sum);
  }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const auto ranks = static_cast<std::size_t>(at.size);
    const void* const from = input(total(at.size), staging);
    void* const to = scattered(at.rank, counts[at.rank], staging);
    if (counts.allEqual(at.size)) {
      mode.make(at, Collective::reducescatter, from, to,
                static_cast<std::size_t>(counts[0]) * reduction.factor, reduction.type,
                reduction.op);
      return;
    }
    std::vector<std::size_t> sizes(ranks), offsets(ranks);
    std::size_t total = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      sizes[r] = static_cast<std::size_t>(counts[r]) * reduction.factor;
      offsets[r] = total;
      total += sizes[r];
    }
    mode.template call<&Communicator::reduceScatterv, &Communicator::reduceScattervAsync>(
        at, from, Blocks{sizes, offsets}, to, reduction.type, reduction.op);
  }
};

} // namespace

} // namespace rondo::compat

using namespace rondo::compat;

extern "C" int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm) {
  return run(Allreduce{{send, receive, type, op}, count}, comm,
             [&] { return mpi().Allreduce(send, receive, count, type, op, comm); });
}
extern "C" int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type,
                              MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return start(Allreduce{{send, receive, type, op}, count}, comm, request,
               [&] { return mpi().Iallreduce(send, receive, count, type, op, comm, request); });
}

extern "C" int MPI_Reduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                          int root, MPI_Comm comm) {
  return run(Reduce{{send, receive, type, op}, count, root}, comm,
             [&] { return mpi().Reduce(send, receive, count, type, op, root, comm); });
}
extern "C" int MPI_Ireduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                           int root, MPI_Comm comm, MPI_Request* request) {
  return start(Reduce{{send, receive, type, op}, count, root}, comm, request,
               [&] { return mpi().Ireduce(send, receive, count, type, op, root, comm, request); });
}

extern "C" int MPI_Reduce_scatter_block(const void* send, void* receive, int count,
                                        MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return run(ReduceScatterBlock{{send, receive, type, op}, count}, comm,
             [&] { return mpi().Reduce_scatter_block(send, receive, count, type, op, comm); });
}
extern "C" int MPI_Ireduce_scatter_block(const void* send, void* receive, int count,
                                         MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                         MPI_Request* request) {
  return start(ReduceScatterBlock{{send, receive, type, op}, count}, comm, request, [&] {
    return mpi().Ireduce_scatter_block(send, receive, count, type, op, comm, request);
  });
}

extern "C" int MPI_Reduce_scatter(const void* send, void* receive, const int counts[],
                                  MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return run(ReduceScatter{{send, receive, type, op}, counts}, comm,
             [&] { return mpi().Reduce_scatter(send, receive, counts, type, op, comm); });
}
extern "C" int MPI_Ireduce_scatter(const void* send, void* receive, const int counts[],
                                   MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                   MPI_Request* request) {
  return start(ReduceScatter{{send, receive, type, op}, counts}, comm, request, [&] {
    return mpi().Ireduce_scatter(send, receive, counts, type, op, comm, request);
  });
}

extern "C" int MPI_Scan(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm) {
  return run(Scan{{send, receive, type, op}, count}, comm,
             [&] { return mpi().Scan(send, receive, count, type, op, comm); });
}
extern "C" int MPI_Iscan(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm, MPI_Request* request) {
  return start(Scan{{send, receive, type, op}, count}, comm, request,
               [&] { return mpi().Iscan(send, receive, count, type, op, comm, request); });
}

extern "C" int MPI_Exscan(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                          MPI_Comm comm) {
  return run(Exscan{{send, receive, type, op}, count}, comm,
             [&] { return mpi().Exscan(send, receive, count, type, op, comm); });
}
extern "C" int MPI_Iexscan(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm, MPI_Request* request) {
  return start(Exscan{{send, receive, type, op}, count}, comm, request,
               [&] { return mpi().Iexscan(send, receive, count, type, op, comm, request); });
}

RONDO_MPI_EXPORT(Allreduce);
RONDO_MPI_EXPORT(Iallreduce);
RONDO_MPI_EXPORT(Reduce);
RONDO_MPI_EXPORT(Ireduce);
RONDO_MPI_EXPORT(Reduce_scatter_block);
RONDO_MPI_EXPORT(Ireduce_scatter_block);
RONDO_MPI_EXPORT(Reduce_scatter);
RONDO_MPI_EXPORT(Ireduce_scatter);
RONDO_MPI_EXPORT(Scan);
RONDO_MPI_EXPORT(Iscan);
RONDO_MPI_EXPORT(Exscan);
RONDO_MPI_EXPORT(Iexscan);
