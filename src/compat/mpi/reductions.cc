// MPI_Allreduce, Reduce, Reduce_scatter, Reduce_scatter_block and their I-forms.
//
// Taken over when Rondo has both operator and type; MPI says that these are the same on all ranks.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "compat/mpi/run.h"

namespace rondo::compat {

namespace {

/// Of a call that MPI refuses, a count may be anything.
std::size_t positive(std::ptrdiff_t count) {
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(count, 0));
}

/// What all reductions have. Derived types and other operators go to the MPI library.
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
  const void* input() const { return inPlace() ? receive : send; }

  /// Where a reduce-scatter's result goes: MPI's in place begins at the buffer's begin, on all
  /// ranks.
  void* output(int rank, std::size_t bytes, Staging& staging) const {
    return inPlace() && rank != 0 ? staging.copiedTo(receive, bytes) : receive;
  }
  std::size_t elementBytes() const {
    return reduction.refused == Reason::none ? reduction.bytes() : shapeOf(type).size;
  }
};

struct Allreduce : Reducing {
  static constexpr Function kFunction = Function::allreduce;
  std::ptrdiff_t count;

  using Reducing::refuse;
  Reason refuse(const Counterpart&) const {
    return count < 0 || receive == MPI_IN_PLACE ? Reason::erroneous : Reason::none;
  }
  std::size_t bytes(int, int) const { return positive(count) * elementBytes(); }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging&) const {
    mode.template call<&Communicator::allReduce, &Communicator::allReduceAsync>(
        at, input(), receive, static_cast<std::size_t>(count) * reduction.factor, reduction.type,
        reduction.op);
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
  std::size_t bytes(int, int) const { return positive(count) * elementBytes(); }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging&) const {
    mode.template call<&Communicator::reduce, &Communicator::reduceAsync>(
        at, input(), at.rank == root ? receive : nullptr,
        static_cast<std::size_t>(count) * reduction.factor, reduction.type, reduction.op, root);
  }
};

struct ReduceScatterBlock : Reducing {
  static constexpr Function kFunction = Function::reduce_scatter_block;
  std::ptrdiff_t count;

  using Reducing::refuse;
  Reason refuse(const Counterpart&) const {
    return count < 0 || receive == MPI_IN_PLACE ? Reason::erroneous : Reason::none;
  }
  std::size_t bytes(int, int size) const {
    return positive(count) * static_cast<std::size_t>(size) * elementBytes();
  }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const std::size_t elements = static_cast<std::size_t>(count) * reduction.factor;
    mode.template call<&Communicator::reduceScatter, &Communicator::reduceScatterAsync>(
        at, input(), output(at.rank, elements * sizeOf(reduction.type), staging), elements,
        reduction.type, reduction.op);
  }
};

struct ReduceScatter : Reducing {
  static constexpr Function kFunction = Function::reduce_scatter;
  const int* counts;

  using Reducing::refuse;
  Reason refuse(const Counterpart& at) const {
    const bool wrong = !counts || receive == MPI_IN_PLACE ||
                       std::any_of(counts, counts + at.size, [](int c) { return c < 0; });
    return wrong ? Reason::erroneous : Reason::none;
  }
  std::size_t bytes(int, int size) const {
    std::size_t sum = 0;
    for (int r = 0; counts && r < size; ++r) sum += positive(counts[r]);
    return sum * elementBytes();
  }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const auto ranks = static_cast<std::size_t>(at.size);
    const std::size_t own = static_cast<std::size_t>(counts[at.rank]) * reduction.factor;
    void* const to = output(at.rank, own * sizeOf(reduction.type), staging);
    if (std::all_of(counts, counts + ranks, [this](int c) { return c == *counts; })) {
      mode.template call<&Communicator::reduceScatter, &Communicator::reduceScatterAsync>(
          at, input(), to, own, reduction.type, reduction.op);
      return;
    }
    std::vector<std::size_t> elements(ranks), offsets(ranks);
    std::size_t total = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      elements[r] = static_cast<std::size_t>(counts[r]) * reduction.factor;
      offsets[r] = total;
      total += elements[r];
    }
    mode.template call<&Communicator::reduceScatterv, &Communicator::reduceScattervAsync>(
        at, input(), Blocks{elements, offsets}, to, reduction.type, reduction.op);
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

RONDO_MPI_EXPORT(Allreduce);
RONDO_MPI_EXPORT(Iallreduce);
RONDO_MPI_EXPORT(Reduce);
RONDO_MPI_EXPORT(Ireduce);
RONDO_MPI_EXPORT(Reduce_scatter_block);
RONDO_MPI_EXPORT(Ireduce_scatter_block);
RONDO_MPI_EXPORT(Reduce_scatter);
RONDO_MPI_EXPORT(Ireduce_scatter);
