// MPI_Bcast, Scatter, Gather, Allgather, Alltoall, Barrier and their nonblocking forms.
//
// They are taken over for all datatypes, and data are moved as bytes: ranks may describe the same
// data by different types, but the number of bytes must be the same.
#include <cstddef>

#include "compat/mpi/entry_points.h"
#include "compat/mpi/side.h"

namespace rondo::compat {

namespace {

struct Bcast {
  static constexpr Function kFunction = Function::bcast;
  Side side;
  int root;

  Reason refuse() {
    // MPICH ignores the type if the count is 0.
    if (!kForOpenMpi && side.count == 0 && side.type == MPI_DATATYPE_NULL) side.type = MPI_BYTE;
    return Reason::none;
  }
  Reason refuse(const Counterpart& at) const {
    return erroneousIf(rootWrong(root, at.size) || side.wrong());
  }
  int aliasError(const Counterpart&) const { return MPI_SUCCESS; }
  std::size_t bytes(int, int) const { return side.bytes(); }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const Elements all = side.elements(staging);
    const bool sends = at.rank == root;
    const void* const from = sends ? staging.readable(all) : nullptr;
    // On the root input and output are the same, so nothing is written.
    void* const to = sends ? const_cast<void*>(from) : staging.writable(all);
    mode.make(at, Collective::broadcast, from, to, all.bytes(), kByte, root);
  }
};

struct Scatter {
  static constexpr Function kFunction = Function::scatter;
  Side send, receive;
  int root;

  Reason refuse() const { return Reason::none; }
  Reason refuse(const Counterpart& at) const {
    if (rootWrong(root, at.size)) return Reason::erroneous;
    if (at.rank != root) return erroneousIf(receive.wrong());
    return erroneousIf(send.wrong() || (!receive.inPlace() && receive.wrong()));
  }
  int aliasError(const Counterpart& at) const {
    if (at.rank != root) return MPI_SUCCESS;
    return compat::aliasError(at, send, std::ptrdiff_t{root} * send.count, receive);
  }
  std::size_t bytes(int, int) const { return receive.inPlace() ? send.bytes() : receive.bytes(); }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t block = 0;
    if (at.rank == root) {
      const Elements all = send.elements(staging, at.size);
      block = static_cast<std::size_t>(send.count) * all.shape.size;
      from = staging.readable(all);
      std::byte* const own = byteAt(const_cast<void*>(from), block, root);
      // In place, input and output are the same, so nothing is written.
      to = receive.inPlace() ? own : ownPlace(receive.elements(staging), own, block, staging);
    } else {
      const Elements own = receive.elements(staging);
      block = own.bytes();
      to = staging.writable(own);
    }
    mode.make(at, Collective::scatter, from, to, block, kByte, root);
  }
};

struct Gather {
  static constexpr Function kFunction = Function::gather;
  Side send, receive;
  int root;

  Reason refuse() const { return Reason::none; }
  Reason refuse(const Counterpart& at) const {
    if (rootWrong(root, at.size)) return Reason::erroneous;
    if (at.rank != root) return erroneousIf(send.wrong());
    return erroneousIf(receive.wrong() || (!send.inPlace() && send.wrong()));
  }
  int aliasError(const Counterpart& at) const {
    if (at.rank != root) return MPI_SUCCESS;
    return compat::aliasError(at, receive, std::ptrdiff_t{root} * receive.count, send);
  }
  std::size_t bytes(int, int) const { return send.inPlace() ? receive.bytes() : send.bytes(); }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t block = 0;
    if (at.rank == root) {
      const Elements all = receive.elements(staging, at.size);
      block = static_cast<std::size_t>(receive.count) * all.shape.size;
      to = staging.writable(all);
      from = ownBlock(send, blockOf(receive, all, root), byteAt(to, block, root), staging);
    } else {
      const Elements own = send.elements(staging);
      block = own.bytes();
      from = staging.readable(own);
    }
    mode.make(at, Collective::gather, from, to, block, kByte, root);
  }
};

struct Allgather {
  static constexpr Function kFunction = Function::allgather;
  Side send, receive;

  Reason refuse() const { return Reason::none; }
  Reason refuse(const Counterpart&) const {
    return erroneousIf(receive.wrong() || (!send.inPlace() && send.wrong()));
  }
  int aliasError(const Counterpart& at) const {
    return compat::aliasError(at, receive, at.rank * receive.count, send);
  }
  std::size_t bytes(int, int) const { return send.inPlace() ? receive.bytes() : send.bytes(); }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const Elements all = receive.elements(staging, at.size);
    const std::size_t block = static_cast<std::size_t>(receive.count) * all.shape.size;
    void* const to = staging.writable(all);
    const void* const from =
        ownBlock(send, blockOf(receive, all, at.rank), byteAt(to, block, at.rank), staging);
    mode.make(at, Collective::allgather, from, to, block, kByte);
  }
};

struct Alltoall {
  static constexpr Function kFunction = Function::alltoall;
  Side send, receive;

  Reason refuse() const { return Reason::none; }
  Reason refuse(const Counterpart&) const {
    return erroneousIf(receive.wrong() || (!send.inPlace() && send.wrong()));
  }
  int aliasError(const Counterpart& at) const {
    return send.count == receive.count ? compat::aliasError(at, receive, 0, send) : MPI_SUCCESS;
  }
  std::size_t bytes(int, int size) const {
    return (send.inPlace() ? receive.bytes() : send.bytes()) * static_cast<std::size_t>(size);
  }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const Elements in = (send.inPlace() ? receive : send).elements(staging, at.size);
    const Elements out = receive.elements(staging, at.size);
    const std::size_t block = static_cast<std::size_t>(receive.count) * out.shape.size;
    const std::size_t sent = in.bytes() / static_cast<std::size_t>(at.size);
    // Rondo's allToAll does not work in place.
    const void* from = send.inPlace() ? staging.copied(in) : staging.readable(in);
    if (sent != block) from = staging.resized(from, sent, block, at.size);
    mode.make(at, Collective::alltoall, from, staging.writable(out), block, kByte);
  }
};

struct Barrier {
  static constexpr Function kFunction = Function::barrier;
  Reason refuse() const { return Reason::none; }
  Reason refuse(const Counterpart&) const { return Reason::none; }
  int aliasError(const Counterpart&) const { return MPI_SUCCESS; }
  std::size_t bytes(int, int) const { return 0; }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging&) const {
    mode.template call<&Communicator::barrier, &Communicator::barrierAsync>(at);
  }
};

} // namespace

} // namespace rondo::compat

RONDO_MPI_COLLECTIVE(Bcast, Ibcast, (Bcast{{buffer, count, type}, root}),
                     (buffer, count, type, root), void* buffer, Count count, MPI_Datatype type,
                     int root)
RONDO_MPI_COLLECTIVE(
    Scatter, Iscatter,
    (Scatter{{send, send_count, send_type}, {receive, receive_count, receive_type}, root}),
    (send, send_count, send_type, receive, receive_count, receive_type, root), const void* send,
    Count send_count, MPI_Datatype send_type, void* receive, Count receive_count,
    MPI_Datatype receive_type, int root)
RONDO_MPI_COLLECTIVE(
    Gather, Igather,
    (Gather{{send, send_count, send_type}, {receive, receive_count, receive_type}, root}),
    (send, send_count, send_type, receive, receive_count, receive_type, root), const void* send,
    Count send_count, MPI_Datatype send_type, void* receive, Count receive_count,
    MPI_Datatype receive_type, int root)
RONDO_MPI_COLLECTIVE(Allgather, Iallgather,
                     (Allgather{{send, send_count, send_type},
                                {receive, receive_count, receive_type}}),
                     (send, send_count, send_type, receive, receive_count, receive_type),
                     const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                     Count receive_count, MPI_Datatype receive_type)
RONDO_MPI_COLLECTIVE(Alltoall, Ialltoall,
                     (Alltoall{{send, send_count, send_type},
                               {receive, receive_count, receive_type}}),
                     (send, send_count, send_type, receive, receive_count, receive_type),
                     const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                     Count receive_count, MPI_Datatype receive_type)

using namespace rondo::compat;

extern "C" int MPI_Barrier(MPI_Comm comm) {
  return run(Barrier{}, comm, [&] { return mpi().Barrier(comm); });
}
extern "C" int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  return start(Barrier{}, comm, request, [&] { return mpi().Ibarrier(comm, request); });
}

RONDO_MPI_EXPORT(Barrier);
RONDO_MPI_EXPORT(Ibarrier);
