// What workers and servers say to each other, beside the pieces.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "rondo/communicator.h"

namespace rondo::training::servers {

/// From a worker to each server: what comes next.
struct Request {
  enum Kind : std::int64_t {
    push, ///< all pieces; then it waits for the new values
    last, ///< all pieces; it wants no values before the meeting
    end,  ///< nothing more before the meeting
  };
  Kind kind = push;
  std::int64_t stop = 0; ///< other than 0: it was asked to end
  double loss = 0;       ///< sum over the samples of its step
};

/// From a server to a worker, behind all pieces.
struct Notice {
  std::int64_t go = 0, last = 0; ///< a Grant; only the first server's counts
  std::int64_t oldest = 0;       ///< steps of every worker that the values hold at least
  std::int64_t steps = 0; ///< of the run since the last meeting, all workers' pushes together
  double losses = 0;      ///< sum over the epoch's steps
  double loss = 0;        ///< of the newest of these steps
};

/// From a server to a worker, before a piece of which it tells what has changed only.
struct Told {
  std::int64_t keys = 0; ///< of the piece, whose answerWords() follow
};

/// The links between workers and servers. Either direction has a communicator of its own: a rank
/// may be both, with a thread for each, and what one of them sends never stands between what the
/// other does.
struct Links {
  Communicator up;          ///< workers' sends
  Communicator down;        ///< servers' sends
  std::vector<int> workers; ///< their ranks
};

/// Collective. The first ranks serve, those from `first_worker` on work.
inline Links link(Communicator& comm, int first_worker) {
  Links links{
      .up = *comm.split(0, comm.rank()), .down = *comm.split(0, comm.rank()), .workers = {}};
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
