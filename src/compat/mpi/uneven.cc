// MPI_Scatterv, Gatherv, Allgatherv, Alltoallv and their nonblocking forms: blocks of different
// sizes, moved as bytes.
#include <cstddef>

#include "compat/mpi/entry_points.h"
#include "compat/mpi/side.h"

namespace rondo::compat {

namespace {

struct Scatterv {
  static constexpr Function kFunction = Function::scatterv;
  Sides send;
  Side receive;
  int root;

  Reason refuse() const { return Reason::none; }
  Reason refuse(const Counterpart& at) const {
    if (rootWrong(root, at.size)) return Reason::erroneous;
    if (at.rank != root) return erroneousIf(receive.wrong());
    return erroneousIf(send.wrong(at.size) || (!receive.inPlace() && receive.wrong()));
  }
  int aliasError(const Counterpart& at) const {
    if (at.rank != root) return MPI_SUCCESS;
    return compat::aliasError(at, send.side(root), send.displacements[root], receive);
  }
  std::size_t bytes(int rank, int) const {
    return receive.inPlace() ? send.side(rank).bytes() : receive.bytes();
  }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    ByteBlocks from;
    void* to = nullptr;
    std::size_t own_bytes = 0;
    if (at.rank == root) {
      from = staging.readable(send.blocks(staging, at.size));
      own_bytes = from.counts[static_cast<std::size_t>(root)];
      std::byte* const own = from.block(root);
      // In place, input and output are the same, so nothing is written.
      to = receive.inPlace() ? own : ownPlace(receive.elements(staging), own, own_bytes, staging);
    } else {
      const Elements own = receive.elements(staging);
      own_bytes = own.bytes();
      to = staging.writable(own);
    }
    mode.template call<&Communicator::scatterv, &Communicator::scattervAsync>(
        at, from.base, from.view(), to, own_bytes, kByte, root);
  }
};

struct Gatherv {
  static constexpr Function kFunction = Function::gatherv;
  Side send;
  Sides receive;
  int root;

  Reason refuse() const { return Reason::none; }
  Reason refuse(const Counterpart& at) const {
    if (rootWrong(root, at.size)) return Reason::erroneous;
    if (at.rank != root) return erroneousIf(send.wrong());
    return erroneousIf(receive.wrong(at.size) || (!send.inPlace() && send.wrong()));
  }
  int aliasError(const Counterpart& at) const {
    if (at.rank != root) return MPI_SUCCESS;
    return compat::aliasError(at, receive.side(root), receive.displacements[root], send);
  }
  std::size_t bytes(int rank, int) const {
    return send.inPlace() ? receive.side(rank).bytes() : send.bytes();
  }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const void* from = nullptr;
    ByteBlocks to;
    std::size_t own_bytes = 0;
    if (at.rank == root) {
      const ElementBlocks all = receive.blocks(staging, at.size);
      to = staging.writable(all);
      const auto own = static_cast<std::size_t>(root);
      own_bytes = to.counts[own];
      from = ownBlock(send, all.elements(own), to.block(root), staging);
    } else {
      const Elements own = send.elements(staging);
      own_bytes = own.bytes();
      from = staging.readable(own);
    }
    mode.template call<&Communicator::gatherv, &Communicator::gathervAsync>(
        at, from, own_bytes, to.base, to.view(), kByte, root);
  }
};

struct Allgatherv {
  static constexpr Function kFunction = Function::allgatherv;
  Side send;
  Sides receive;

  Reason refuse() const { return Reason::none; }
  Reason refuse(const Counterpart& at) const {
    return erroneousIf(receive.wrong(at.size) || (!send.inPlace() && send.wrong()));
  }
  int aliasError(const Counterpart& at) const {
    return compat::aliasError(at, receive.side(at.rank), receive.displacements[at.rank], send);
  }
  std::size_t bytes(int rank, int) const {
    return send.inPlace() ? receive.side(rank).bytes() : send.bytes();
  }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    const ElementBlocks all = receive.blocks(staging, at.size);
    const ByteBlocks to = staging.writable(all);
    const auto own = static_cast<std::size_t>(at.rank);
    const void* const from = ownBlock(send, all.elements(own), to.block(at.rank), staging);
    mode.template call<&Communicator::allGatherv, &Communicator::allGathervAsync>(
        at, from, to.counts[own], to.base, to.view(), kByte);
  }
};

struct Alltoallv {
  static constexpr Function kFunction = Function::alltoallv;
  Sides send, receive;

  Reason refuse() const { return Reason::none; }
  Reason refuse(const Counterpart& at) const {
    return erroneousIf(receive.wrong(at.size) || (!send.inPlace() && send.wrong(at.size)));
  }
  int aliasError(const Counterpart&) const {
    const bool same = !kForOpenMpi && send.buffer == receive.buffer && !send.inPlace() &&
                      send.type == receive.type && send.counts == receive.counts;
    return same ? MPI_ERR_BUFFER : MPI_SUCCESS;
  }
  std::size_t bytes(int, int size) const {
    return send.inPlace() ? receive.bytes(size) : send.bytes(size);
  }

  template <class Mode>
  void make(Mode mode, Counterpart& at, Staging& staging) const {
    // Rondo's allToAllv does not work in place.
    const ElementBlocks out = receive.blocks(staging, at.size);
    ByteBlocks from =
        send.inPlace() ? staging.copied(out) : staging.readable(send.blocks(staging, at.size));
    ByteBlocks to = staging.writable(out);
    const auto own = static_cast<std::size_t>(at.rank);
    if (from.counts[own] != to.counts[own]) {
      const Elements place = out.elements(own);
      // Bytes that the incoming data do not cover are delivered with their old values.
      if (to.block(at.rank) != place.buffer) staging.pack(place, to.block(at.rank));
      from.counts[own] = to.counts[own] = staging.keep(from.counts[own], to.counts[own]);
    }
    mode.template call<&Communicator::allToAllv, &Communicator::allToAllvAsync>(
        at, from.base, from.view(), to.base, to.view(), kByte);
  }
};

} // namespace

} // namespace rondo::compat

RONDO_MPI_COLLECTIVE(Scatterv, Iscatterv,
                     (Scatterv{{send, send_counts, displacements, send_type},
                               {receive, receive_count, receive_type},
                               root}),
                     (send, send_counts, displacements, send_type, receive, receive_count,
                      receive_type, root),
                     const void* send, const Count send_counts[], const Place displacements[],
                     MPI_Datatype send_type, void* receive, Count receive_count,
                     MPI_Datatype receive_type, int root)
RONDO_MPI_COLLECTIVE(Gatherv, Igatherv,
                     (Gatherv{{send, send_count, send_type},
                              {receive, receive_counts, displacements, receive_type},
                              root}),
                     (send, send_count, send_type, receive, receive_counts, displacements,
                      receive_type, root),
                     const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                     const Count receive_counts[], const Place displacements[],
                     MPI_Datatype receive_type, int root)
RONDO_MPI_COLLECTIVE(Allgatherv, Iallgatherv,
                     (Allgatherv{{send, send_count, send_type},
                                 {receive, receive_counts, displacements, receive_type}}),
                     (send, send_count, send_type, receive, receive_counts, displacements,
                      receive_type),
                     const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                     const Count receive_counts[], const Place displacements[],
                     MPI_Datatype receive_type)
RONDO_MPI_COLLECTIVE(Alltoallv, Ialltoallv,
                     (Alltoallv{{send, send_counts, send_places, send_type},
                                {receive, receive_counts, receive_places, receive_type}}),
                     (send, send_counts, send_places, send_type, receive, receive_counts,
                      receive_places, receive_type),
                     const void* send, const Count send_counts[], const Place send_places[],
                     MPI_Datatype send_type, void* receive, const Count receive_counts[],
                     const Place receive_places[], MPI_Datatype receive_type)
