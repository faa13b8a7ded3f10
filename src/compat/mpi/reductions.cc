// MPI_Allreduce, Reduce, Reduce_scatter, Reduce_scatter_block, Scan, Exscan and their nonblocking
// forms.
//
// They are taken over if Rondo supports both operator and type, which MPI requires to be the same
// on all ranks.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "compat/mpi/entry_points.h"

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
            {bytes, static_cast<MPI_Aint>(bytes), true}};
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

RONDO_MPI_COLLECTIVE(Allreduce, Iallreduce, (Allreduce{{send, receive, type, op}, count}),
                     (send, receive, count, type, op), const void* send, void* receive, Count count,
                     MPI_Datatype type, MPI_Op op)
RONDO_MPI_COLLECTIVE(Reduce, Ireduce, (Reduce{{send, receive, type, op}, count, root}),
                     (send, receive, count, type, op, root), const void* send, void* receive,
                     Count count, MPI_Datatype type, MPI_Op op, int root)
RONDO_MPI_COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block,
                     (ReduceScatterBlock{{send, receive, type, op}, count}),
                     (send, receive, count, type, op), const void* send, void* receive, Count count,
                     MPI_Datatype type, MPI_Op op)
RONDO_MPI_COLLECTIVE(Reduce_scatter, Ireduce_scatter,
                     (ReduceScatter{{send, receive, type, op}, counts}),
                     (send, receive, counts, type, op), const void* send, void* receive,
                     const Count counts[], MPI_Datatype type, MPI_Op op)
RONDO_MPI_COLLECTIVE(Scan, Iscan, (Scan{{send, receive, type, op}, count}),
                     (send, receive, count, type, op), const void* send, void* receive, Count count,
                     MPI_Datatype type, MPI_Op op)
RONDO_MPI_COLLECTIVE(Exscan, Iexscan, (Exscan{{send, receive, type, op}, count}),
                     (send, receive, count, type, op), const void* send, void* receive, Count count,
                     MPI_Datatype type, MPI_Op op)
