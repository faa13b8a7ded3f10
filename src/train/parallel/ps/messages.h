// Messages between workers and servers, other than the pieces.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "rondo/communicator.h"

namespace rondo::training::servers {

/// From a worker to each server: what the worker does next.
struct Request {
  enum Kind : std::int64_t {
    push, ///< sends all pieces, then waits for the new values
    last, ///< sends all pieces, and needs no values before the synchronization point
    end,  ///< sends nothing more before the synchronization point
  };
  Kind kind = push;
  std::int64_t stop = 0; ///< not 0 if this worker was asked to stop
  double loss = 0;       ///< sum over the samples of the worker's step
};

/// From a server to a worker, after all pieces of an answer.
struct Notice {
  /// A Grant; workers use that of the first server. `part` is -1 if the worker may not go on.
  std::int64_t part = -1, last = 0;
  std::int64_t oldest = 0; ///< the values contain at least this number of steps of every worker
  /// Steps of the run since the last synchronization point, counting the pushes of all workers.
  std::int64_t steps = 0;
  double losses = 0; ///< sum over the steps of the epoch
  double loss = 0;   ///< loss of the newest of these steps
};

/// From a server to a worker, before a piece that contains only changed keys.
struct Told {
  std::int64_t keys = 0; ///< number of changed keys; answerWords() of them follow
};

/// The communicators between workers and servers, one for each direction. A rank may be both worker
/// and server, with a thread for each: separate communicators keep the calls of one thread from
/// waiting for those of the other.
struct Links {
  Communicator up;          ///< workers send, servers receive
  Communicator down;        ///< servers send, workers receive
  std::vector<int> workers; ///< the ranks of the workers
  Communicator* all;        ///< the communicator of the run
};

/// Collective. The first ranks are servers; the ranks from `first_worker` on are workers. `comm`
/// must outlive the links.
inline Links link(Communicator& comm, int first_worker) {
  Links links{.up = *comm.split(0, comm.rank()),
              .down = *comm.split(0, comm.rank()),
              .workers = {},
              .all = &comm};
  for (int rank = first_worker; rank < comm.size(); ++rank) links.workers.push_back(rank);
  return links;
}

template <class Message>
Work sendAsync(Communicator& comm, const Message& message, int peer) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return comm.sendAsync(&message, sizeof message, DataType::uint8, peer);
}
template <class Message>
Work recvAsync(Communicator& comm, Message& message, int peer) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return comm.recvAsync(&message, sizeof message, DataType::uint8, peer);
}

} // namespace rondo::training::servers
