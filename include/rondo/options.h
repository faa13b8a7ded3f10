// Every setting of a communicator: name, unit, default, environment variable.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "rondo/export.h"

namespace rondo {

enum class LogLevel { none, error, warn, info, trace };

/// Settings of one communicator. fromEnvironment() reads the variable named beside each field;
/// where an NCCL name is given too, it is an alias, and the RONDO name wins. An unknown value is
/// Error(invalid_argument) that lists the valid ones; of an NCCL name it is ignored and logged.
/// All ranks must pass equal values, but for `device` and `node`; rank 0's algorithm,
/// deterministic, channel_bytes and channel_depth are used by all, so that ranks can never
/// disagree.
struct RONDO_API Options {
  /// RONDO_ALGO, NCCL_ALGO. NCCL's grammar: "ring,tree", or "ring;allreduce:tree,ring;
  /// broadcast:^chain" ('^' excludes). Empty: the planner chooses. "parameter_server/4" uses 4
  /// servers, "hierarchical(linear,ring)" linear inside nodes and ring between them. "?ring" is a
  /// wish, as NCCL_ALGO always is: calls that no algorithm of the list can serve get another one.
  std::string algorithm;

  /// RONDO_TRANSPORT. Comma list of transports that may be used, e.g. "shm,tcp"; with a leading
  /// '^', of those that may not ("^shm"). Empty: all; the fastest that reaches a peer is taken.
  /// RONDO_SHM_DISABLE=1 (NCCL_SHM_DISABLE) leaves out shm. ucx is taken unasked only where it has
  /// a fabric that is faster than TCP; naming it where it cannot be used is an error.
  std::string transports;

  /// RONDO_DETERMINISTIC (0 or 1). Results are the rank-order reduction of the contributions
  /// (scaled and rounded to the element type first, for avg and preMulSum), accumulated without
  /// rounding below fp32, whatever algorithm, transport, size or chunking is used.
  bool deterministic = false;

  /// RONDO_TIMEOUT (seconds, fractions allowed). A call that makes no progress for this long ends
  /// with Error(timeout). From 1 ms to a year: there is no "for ever".
  std::chrono::milliseconds timeout{120'000};
  /// RONDO_INIT_TIMEOUT (seconds). Deadline of creating a communicator and of each connection.
  /// From 1 ms to a year.
  std::chrono::milliseconds init_timeout{60'000};
  /// RONDO_HEARTBEAT (seconds). A process that is silent for three of these is unresponsive.
  /// From 10 ms to an hour.
  std::chrono::milliseconds heartbeat{1'000};
  /// RONDO_PATIENT (0 or 1). A process that is silent is warned of and waited for, as under a
  /// debugger; one that dies still ends its communicators at once.
  bool patient = false;

  /// RONDO_BUFFSIZE, NCCL_BUFFSIZE (bytes, suffixes K and M). Slot memory of one channel (one
  /// direction between two ranks). 0: the transport's default.
  std::size_t channel_bytes = 0;
  /// RONDO_DEPTH. Slots of one channel, 1 to 64. 0: the transport's default.
  int channel_depth = 0;

  /// RONDO_THREADS. Threads that reduce and copy large pieces of a rank together, 1 to 64: for
  /// machines with many more processors than ranks. Each communicator has its own; they stay on the
  /// NUMA node of the thread that made it. Results are the same.
  int threads = 1;

  /// RONDO_DEVICE. Where the buffers of all calls are: -1, in host memory; else in memory that the
  /// CUDA device of this number can use. Ranks may name different devices, or the same one, but
  /// either all name one or none. See Communicator's "Devices".
  int device = -1;

  /// RONDO_NODE, NCCL_HOSTID. Any name of the node that the rank is on: ranks of one node have the
  /// same. Ranks whose names differ share no memory, even if they could, and algorithms may go
  /// different ways inside nodes and between them. Empty: the machine, or the container's network
  /// on it.
  std::string node;

  /// RONDO_BIND. Where the thread that makes a communicator runs from then on, with all that it
  /// starts: "core" (the rank's own core; ranks that follow each other are near each other),
  /// "socket" (its own package), or processors like "0,2,8-11" (of the machine's ranks the first
  /// has the first of them, and so on). Ranks that may use different processors already, as those
  /// do that a launcher or an earlier communicator bound, stay where they are. Empty or "none":
  /// nobody is bound, as by createAll(). `rondo run`, `bench` and `train` bind ranks before they
  /// begin.
  std::string bind;

  /// RONDO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME. Comma list of interface name prefixes; a leading '^'
  /// excludes them, '=' asks for exact names. Empty: the interface that routes to the root. TCP
  /// moves data by all interfaces that the list fits, at the same time, in its order: the first of
  /// one rank to the first of another; with '^' by one. Those of a machine must be in networks of
  /// their own. One that is slow or fails is made up for by the others.
  std::string socket_interface;
  /// RONDO_SOCKET_FAMILY, NCCL_SOCKET_FAMILY: AF_INET or AF_INET6. Empty: either.
  std::string socket_family;
  /// RONDO_TCP_SOCKETS. Sockets per channel and interface, 1 to 16; large messages are striped over
  /// them.
  int tcp_sockets = 1;
  /// RONDO_TCP_CONGESTION. Congestion control of the sockets ("reno", "cubic", "bbr"). Empty: the
  /// system's default.
  std::string tcp_congestion;

  /// RONDO_UCX_TLS. UCX's transports for our transport ucx, in UCX's words ("rc,sm", "^tcp").
  /// Empty: as UCX_TLS says, else UCX chooses.
  std::string ucx_transports;
  /// RONDO_UCX_NET_DEVICES. Network devices for UCX, in its words ("mlx5_0:1,mlx5_1:1"). Empty: as
  /// UCX_NET_DEVICES says, else all.
  std::string ucx_devices;

  /// RONDO_COMM_ID, NCCL_COMM_ID ("host:port"). Where rank 0 listens for the others when a launcher
  /// gave no other address.
  std::string comm_id;
  /// RONDO_SECRET_FILE. File of mode 0600 with the job's secret (32 bytes, or 64 hex digits).
  /// Without a secret only loopback addresses are accepted.
  std::string secret_file;

  /// RONDO_DEBUG, NCCL_DEBUG: none, error, warn, info, trace (NCCL: VERSION is warn, ABORT info).
  LogLevel log_level = LogLevel::warn;
  /// RONDO_DEBUG_FILE, NCCL_DEBUG_FILE. %h is the host's name, %p the process id. Empty: stderr.
  std::string log_file;

  /// Bounds of the three durations. Within them all arithmetic with deadlines is exact; beyond the
  /// heartbeats' the control plane would call a rank silent that is not, or never would.
  static constexpr std::chrono::milliseconds kShortestTimeout{1}, kLongestTimeout{8760L * 3600'000};
  static constexpr std::chrono::milliseconds kShortestHeartbeat{10}, kLongestHeartbeat{3600'000};

  /// Bytes of a node's name.
  static constexpr std::size_t kLongestNode = 255;

  static Options fromEnvironment();
  /// Throws Error(invalid_argument) that names the variable of a field whose value
  /// fromEnvironment() would not take either, and what is valid. Communicator::create() calls it.
  void validate() const;
};

/// One line per field of Options: its variable, the alias, the default, what it means.
/// Printed by `rondo help environment`.
struct OptionHelp {
  std::string variable, alias, default_value, meaning;
};
RONDO_API std::vector<OptionHelp> optionHelp();

} // namespace rondo
