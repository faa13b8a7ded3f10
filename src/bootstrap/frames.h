// The messages between the hub and its members, and their encoding.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/codec.h"
#include "bootstrap/ledger.h"

namespace rondo::bootstrap::frames {

/// Size limit of a whole frame: length, version, type, body, MAC.
inline constexpr std::size_t kFrameBytes = 64 * 1024;
/// Size limit of a frame's body.
inline constexpr std::size_t kBodyBytes = kFrameBytes - 4 - 2 - 32;

enum class Type : std::uint8_t {
  join = 1,  ///< member: the first frame
  welcome,   ///< hub: all ranks have joined
  refused,   ///< hub: refuses this member; the connection ends
  gather,    ///< member: a contribution to an exchange
  gathered,  ///< hub: a part of its result
  fail,      ///< member: reports a failure of the communicator
  failed,    ///< hub: the communicator has failed
  ask,       ///< hub: report progress now
  progress,  ///< member: heartbeat, and answer to ask
  stalled,   ///< member: waits, and for which rank
  leave,     ///< member: leaves a communicator
  bye,       ///< member: leaves the job; its connection ends
  beat,      ///< hub: heartbeat
  farewell,  ///< hub: its process ends; no hub follows
  left,      ///< hub: answers leave
  succeed,   ///< hub: its process ends; offers its role to the member
  succeeded, ///< member: answers succeed
  moved,     ///< hub: another process hosts the hub now
  roster,    ///< member, to a new hub: a part of a communicator's ranks
  settled,   ///< member, to a new hub: all its state has been sent
  shrink,    ///< member: makes a communicator of some ranks of another one
  present,   ///< hub: the ranks that have not ended
  standbys,  ///< hub: where ranks listen, should the hub die
  agree,     ///< member: wants a communicator of the ranks that live
  agreed,    ///< hub: answers agree
  seat,      ///< member: ranks of the job from this one on are for newcomers
  seated,    ///< hub, to a newcomer: its rank and the size of the job
};

/// The last of them.
inline constexpr Type kLastType = Type::seated;

struct Join {
  std::uint32_t heartbeat_ms = 0;
  bool hosts_hub = false;                         ///< the hub runs in the member's process
  bool patient = false;                           ///< its silence is not a failure
  std::uint64_t generation = 0;                   ///< of the last hub that it followed
  std::optional<net::SocketAddress> standby = {}; ///< where it listens, should the hub die

  void write(base::Writer& out) const;
  static Join read(base::Reader& in);
};

struct Welcome {
  int host = -1;         ///< rank whose process runs the hub; -1: none of them
  std::uint64_t job = 0; ///< random, so no other job has it
  net::Secret secret;    ///< only for members without one, over loopback

  void write(base::Writer& out) const;
  static Welcome read(base::Reader& in);
};

struct Refused {
  std::string text;
  ErrorCode code = ErrorCode::init_failed;
  std::int32_t culprit = -1; ///< rank of the job

  void write(base::Writer& out) const;
  static Refused read(base::Reader& in);
};

struct Gather {
  std::uint64_t communicator = 0, index = 0;
  bool split = false; ///< blobs are colors and keys; the children exist once all have arrived
  std::vector<std::byte> blob;

  void write(base::Writer& out) const;
  static Gather read(base::Reader& in);
};

struct Gathered {
  std::uint64_t communicator = 0, index = 0;
  std::uint32_t first = 0; ///< rank of the first blob
  Blobs blobs;

  void write(base::Writer& out) const;
  static Gathered read(base::Reader& in);
  /// Cut so that each part fits in a frame.
  static std::vector<Gathered> parts(std::uint64_t communicator, std::uint64_t index,
                                     const Blobs& blobs);
};

struct Fail {
  std::uint64_t communicator = 0;
  Failure failure;
  std::optional<Stall> stall;         ///< if a call timed out
  std::optional<std::uint64_t> round; ///< if an exchange timed out

  void write(base::Writer& out) const;
  static Fail read(base::Reader& in);
};

struct Failed {
  std::uint64_t communicator = 0;
  Failure failure;

  void write(base::Writer& out) const;
  static Failed read(base::Reader& in);
};

struct Ask {
  std::uint64_t number = 0, communicator = 0;

  void write(base::Writer& out) const;
  static Ask read(base::Reader& in);
};

struct Beat {
  std::uint64_t number = 0; ///< counts up

  void write(base::Writer& out) const;
  static Beat read(base::Reader& in);
};

struct ProgressReport {
  struct Board {
    std::uint64_t communicator = 0, completed = 0;
    CallReport calls; ///< since the last report; in an answer all that the log keeps
  };

  std::uint64_t heard = 0;     ///< Beat::number of the hub's last beat
  std::uint64_t answer_to = 0; ///< Ask::number; 0: a heartbeat
  std::vector<Board> boards;

  void write(base::Writer& out) const;
  static ProgressReport read(base::Reader& in);
  /// Cut so that each part fits in a frame; at least one part. Only the last one has `answer_to`,
  /// so the hub has all parts when it sees the answer.
  static std::vector<ProgressReport> parts(std::uint64_t heard, std::uint64_t answer_to,
                                           std::vector<Board> boards);
};

struct Stalled {
  std::uint64_t communicator = 0;
  Stall stall;

  void write(base::Writer& out) const;
  static Stalled read(base::Reader& in);
};

struct Leave {
  ProgressReport::Board board;

  void write(base::Writer& out) const;
  static Leave read(base::Reader& in);
};

struct Left {
  std::uint64_t communicator = 0;
  bool first = false; ///< this rank is the first to learn here that the ranks' calls differ

  void write(base::Writer& out) const;
  static Left read(base::Reader& in);
};

struct Succeed {
  /// `departed` has at most so many elements, so that the frame is not too large. Of ranks that are
  /// left out, the next hub does not know which calls they entered.
  static constexpr std::size_t kMostDeparted = 1024;

  std::vector<bool> expected; ///< by rank of the job: whether it is still there
  std::vector<Departed> departed;

  void write(base::Writer& out) const;
  static Succeed read(base::Reader& in);
};

struct Succeeded {
  std::optional<net::SocketAddress> address; ///< none: the member cannot host the hub

  void write(base::Writer& out) const;
  static Succeeded read(base::Reader& in);
};

struct Moved {
  int host = -1; ///< rank whose process runs the hub
  net::SocketAddress address;

  void write(base::Writer& out) const;
  static Moved read(base::Reader& in);
};

struct Shrink {
  std::uint64_t communicator = 0, child = 0;
  std::vector<bool> stay; ///< by rank of the communicator: whether it is in the child

  void write(base::Writer& out) const;
  static Shrink read(base::Reader& in);
};

struct Present {
  std::uint64_t generation = 0;  ///< of the hub: counts the hubs of the job
  std::int32_t host = -1;        ///< rank whose process runs the hub; -1: none of them
  std::vector<bool> ranks;       ///< by rank of the job: whether it may be alive
  std::vector<bool> maybe_moved; ///< by rank of the job: see World

  void write(base::Writer& out) const;
  static Present read(base::Reader& in);
};

struct Standbys {
  bool fresh = true;                                              ///< forget what was sent before
  bool candidates = true;                                         ///< they may take the hub over
  std::vector<std::pair<std::int32_t, net::SocketAddress>> ranks; ///< of the job

  void write(base::Writer& out) const;
  static Standbys read(base::Reader& in);
  /// Cut so that each part fits in a frame; at least one part.
  static std::vector<Standbys> parts(bool fresh, bool candidates,
                                     const std::map<int, net::SocketAddress>& ranks);
};

struct Agree {
  std::uint64_t communicator = 0;

  void write(base::Writer& out) const;
  static Agree read(base::Reader& in);
};

struct Agreed {
  Shrink made;
  std::optional<Failure> failure = {}; ///< nothing was made

  void write(base::Writer& out) const;
  static Agreed read(base::Reader& in);
};

struct Seat {
  std::int32_t rank = 0, size = 0; ///< of the job

  void write(base::Writer& out) const;
  static Seat read(base::Reader& in);
};

/// How far a rank is with opening a communicator. Opening one that shrink() made takes several
/// exchanges (Session::allGather()); the last one is Session::finishOpening().
enum class Opening : std::uint8_t {
  done,    ///< it has the result of the last exchange; also: shrink() did not make the communicator
  young,   ///< no exchange has ended here; other ranks may not know the communicator yet
  started, ///< it has the result of an exchange, but not of the last one
};

struct Roster {
  std::uint64_t communicator = 0;
  std::uint32_t size = 0, first = 0;
  std::vector<std::int32_t> ranks; ///< ranks of the job, from the communicator's rank `first` on
  Opening opening = Opening::done;
  bool by_agreement = false; ///< the hub chose its ranks, for shrink() without a list

  void write(base::Writer& out) const;
  static Roster read(base::Reader& in);
  /// Cut so that each part fits in a frame.
  static std::vector<Roster> parts(std::uint64_t communicator, const std::vector<int>& ranks,
                                   Opening opening, bool by_agreement);
};

} // namespace rondo::bootstrap::frames
