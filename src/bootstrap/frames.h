// What the hub and its members say to each other, and its form on the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/codec.h"
#include "bootstrap/ledger.h"

namespace rondo::bootstrap::frames {

/// Of a whole frame: length, version, type, body, MAC.
inline constexpr std::size_t kFrameBytes = 64 * 1024;
/// Of a frame's body; what a sender may fill.
inline constexpr std::size_t kBodyBytes = kFrameBytes - 4 - 2 - 32;

enum class Type : std::uint8_t {
  join = 1,  ///< member: the first frame
  welcome,   ///< hub: all ranks have joined
  refused,   ///< hub: not this one; the connection ends
  gather,    ///< member: a contribution to an exchange
  gathered,  ///< hub: a part of its result
  fail,      ///< member: the communicator is to fail
  failed,    ///< hub: it has failed
  ask,       ///< hub: report progress now
  progress,  ///< member: heartbeat, and answer to ask
  stalled,   ///< member: waits, and for whom
  leave,     ///< member: done with a communicator
  bye,       ///< member: done with the job; its connection ends
  beat,      ///< hub: heartbeat
  farewell,  ///< hub: its process ends; go on without
  left,      ///< hub: the answer to leave
  succeed,   ///< hub: its process ends; take its place
  succeeded, ///< member: the answer
  moved,     ///< hub: another has taken its place
  roster,    ///< member, to a hub that takes over: a part of a communicator's ranks
  settled,   ///< member, to it: it knows all now
  shrink,    ///< member: a communicator of some of another's ranks
};

struct Join {
  std::uint32_t heartbeat_ms = 0;
  bool hosts_hub = false; ///< the hub lives in the member's process
  bool patient = false;   ///< its silence is no failure

  void write(base::Writer& out) const;
  static Join read(base::Reader& in);
};

struct Welcome {
  int host = -1; ///< rank whose process the hub lives in; -1: none of them
  std::uint64_t job = 0;
  net::Secret secret; ///< only to those who came without one, over loopback

  void write(base::Writer& out) const;
  static Welcome read(base::Reader& in);
};

struct Refused {
  std::string text;

  void write(base::Writer& out) const;
  static Refused read(base::Reader& in);
};

struct Gather {
  std::uint64_t communicator = 0, index = 0;
  bool split = false; ///< blobs are colors and keys; the children exist when it is complete
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
  /// Cut so that every part fits a frame.
  static std::vector<Gathered> parts(std::uint64_t communicator, std::uint64_t index,
                                     const Blobs& blobs);
};

struct Fail {
  std::uint64_t communicator = 0;
  Failure failure;
  std::optional<Stall> stall;         ///< a timeout of a call
  std::optional<std::uint64_t> round; ///< a timeout of an exchange

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
    CallReport calls; ///< since the last report; in an answer all that is kept

    void write(base::Writer& out) const;
    static Board read(base::Reader& in);
  };

  std::uint64_t heard = 0;     ///< Beat::number of the last one
  std::uint64_t answer_to = 0; ///< Ask::number; 0: a heartbeat
  std::vector<Board> boards;

  void write(base::Writer& out) const;
  static ProgressReport read(base::Reader& in);
  /// Cut so that every part fits a frame; at least one. The last one answers: by then the hub knows
  /// all of it.
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
  bool first = false; ///< of those that hear here that the ranks' calls differ

  void write(base::Writer& out) const;
  static Left read(base::Reader& in);
};

struct Succeed {
  std::vector<bool> expected; ///< by rank of the job: who is still there

  void write(base::Writer& out) const;
  static Succeed read(base::Reader& in);
};

struct Succeeded {
  std::optional<net::SocketAddress> address; ///< none: it cannot

  void write(base::Writer& out) const;
  static Succeeded read(base::Reader& in);
};

struct Moved {
  int host = -1; ///< rank whose process it is in
  net::SocketAddress address;

  void write(base::Writer& out) const;
  static Moved read(base::Reader& in);
};

struct Shrink {
  std::uint64_t communicator = 0, child = 0;
  std::vector<bool> stay; ///< by rank of the communicator: who is in the child

  void write(base::Writer& out) const;
  static Shrink read(base::Reader& in);
};

struct Roster {
  std::uint64_t communicator = 0;
  std::uint32_t size = 0, first = 0;
  std::vector<std::int32_t> ranks; ///< of the job, from the communicator's rank `first` on

  void write(base::Writer& out) const;
  static Roster read(base::Reader& in);
  /// Cut so that every part fits a frame.
  static std::vector<Roster> parts(std::uint64_t communicator, const std::vector<int>& ranks);
};

} // namespace rondo::bootstrap::frames
