// Every setting of a communicator: name, unit, default, environment variable.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "rondo/export.h"

namespace rondo {

enum class LogLevel { none, error, warn, info, trace };

/// Settings of one communicator. fromEnvironment() reads the variable that each field's comment
/// names first. A second name, if there is one, is NCCL's, and is read if the RONDO variable is not
/// set. A RONDO variable with an empty value counts as set, and means the default. An unknown
/// value of a RONDO variable is Error(invalid_argument) that lists the valid ones; an unknown value
/// of an NCCL variable is logged and ignored, but an unknown word in NCCL_ALGO is an error, as in
/// NCCL. All ranks use rank 0's algorithm, rules_file, planner, profile, deterministic, checksum,
/// check_reductions, channel_bytes, channel_depth and trace_folder. comm_id, the secret and tls
/// must be equal on all ranks; device must be set on all ranks or on none. The others may differ.
struct RONDO_API Options {
  /// RONDO_ALGO, NCCL_ALGO. The algorithms to choose from, in NCCL's grammar: "ring,tree", or
  /// "ring;allreduce:tree,ring;broadcast:^chain" (a list that begins with '^' excludes: the
  /// planner chooses among all others). Empty: the planner chooses. "parameter_server/4" uses 4
  /// servers; "hierarchical(linear,ring)" uses linear inside nodes and ring between them. With a
  /// leading '?', as in "?ring", calls that no listed algorithm can serve use another one;
  /// NCCL_ALGO is always read that way.
  std::string algorithm;

  /// RONDO_RULES_FILE. A file that names the algorithm for some calls, where `algorithm` leaves the
  /// choice. It is CSV. The first line names the columns: "collective" and "algorithm", and any of
  /// "min_bytes", "max_bytes", "ranks" and "nodes". '#' starts a comment.
  ///
  ///     collective,min_bytes,max_bytes,ranks,algorithm
  ///     allreduce,,64K,2-8,oneshot
  ///     *,1M,,,ring                  # all collectives that ring can do
  ///
  /// The first line that matches the call, and whose algorithm can serve it, decides; if none does,
  /// the planner chooses. Only rank 0 reads its file. If it cannot be read, or a line is wrong, all
  /// ranks get Error(data) that names the file, the line and the reason. The meaning of each column
  /// is in tools/README.md, "Rules files".
  std::string rules_file;

  /// RONDO_PLANNER. How the planner chooses where `algorithm` and `rules_file` leave the
  /// choice. "rules": by rules that were measured on a few machines. "model": by times predicted
  /// from `profile`. Empty: rules.
  ///
  /// "measured": the first blocking call of a collective in a size class (blocks of more than 2^k
  /// and at most 2^(k+1) bytes) runs the call with each algorithm that could serve it, and the
  /// fastest serves all calls of this collective and class from then on, whatever their type,
  /// operator and root. That first call waits for all ranks, and takes longer. With more than
  /// 8 ranks at most 5 algorithms are tried. If the first call is asynchronous or in a Group,
  /// nothing is measured, and the rules choose. The first call must be blocking on all ranks or on
  /// none; otherwise they get Error(mismatch). AllReduce, ReduceScatter, AllGather,
  /// Broadcast, Reduce, Scatter, Gather and AllToAll of equal blocks in host memory are measured.
  std::string planner;
  /// RONDO_PROFILE. File with the link profile of this machine, as `rondo tune -o` writes it.
  /// Empty: the one that `rondo tune` stored for this kind of machine, or a general one.
  std::string profile;

  /// RONDO_TRANSPORT. Comma list of the transports that may be used, e.g. "shm,tcp", or, with a
  /// leading '^', of those that may not ("^shm"). Empty: all. Of these, the fastest that reaches a
  /// peer is used. RONDO_SHM_DISABLE=1 (NCCL_SHM_DISABLE) excludes shm. Unless it is named, ucx is
  /// used only where it has a fabric that is faster than TCP. Naming ucx where it cannot be used is
  /// an error.
  std::string transports;

  /// RONDO_DETERMINISTIC (0 or 1). With 1, contributions are reduced in the order of the ranks, and
  /// no intermediate result is rounded below fp32. The result is then the same for every algorithm,
  /// transport, size and chunking. (avg and preMulSum first scale each contribution and round it to
  /// the element type.)
  bool deterministic = false;

  /// RONDO_CHECKSUM (0 or 1). With 1, the sender adds a CRC32C to each message, and the receiver
  /// compares it: over TCP, UCX and shared memory, also for data that it reads directly from the
  /// sender's memory, but not between devices. No rank sends results of a damaged message. A
  /// difference fails the call on all ranks with Error(transport), which names the sender and the
  /// step; the output is then undefined. Cost for an AllReduce of 1 to 16 MiB between 2 processes,
  /// on processors with VPCLMULQDQ: 3 to 11% over shm, 6 to 15% over tcp.
  bool checksum = false;

  /// RONDO_CHECK_REDUCTIONS (0 or 1). With 1, the next rank checks what a rank reduces: it computes
  /// one in 1024 elements a second time, at least one of each step, with scalar code. Other
  /// elements are chosen in each call. This finds a processor that computes wrongly. At the end of
  /// each call that reduces, the ranks send each other these elements, with operands and results. A
  /// difference fails the communicator on all ranks with Error(wrong_result), which names the rank,
  /// the element, the operands and both results. A rank that has left the call by then gets the
  /// error from a later call. Buffers on devices are not checked. Cost for an AllReduce between 2
  /// processes, AMD Zen 3: over shm 8 B 1.7 us in place of 0.2, 1 MiB 15%, 16 MiB 34%; over tcp 16
  /// MiB 3%.
  bool check_reductions = false;

  /// RONDO_TIMEOUT (seconds, fractions allowed). A call that makes no progress for this long ends
  /// with Error(timeout). From 1 ms to a year; there is no infinite timeout.
  std::chrono::milliseconds timeout{120'000};
  /// RONDO_INIT_TIMEOUT (seconds). Limit for each stage of creating, splitting, shrinking or
  /// growing a communicator: reaching the rendezvous, waiting there for all ranks, and each
  /// exchange of settings after that. So the whole may take longer. (The last stage of grow() may
  /// take three times this; a connection that a call opens, this and `timeout` together.) From 1 ms
  /// to a year.
  std::chrono::milliseconds init_timeout{60'000};
  /// RONDO_HEARTBEAT (seconds). Each process sends three messages in this time. A process that is
  /// silent for three such intervals is unresponsive. A TCP connection for data fails when the
  /// peer's system has not answered for three intervals and at least a second. From 10 ms to an
  /// hour. Choose more than the network's round-trip time; below half of it, ranks cannot join.
  std::chrono::milliseconds heartbeat{1'000};
  /// RONDO_PATIENT (0 or 1). With 1, ranks wait for a silent process, and log it; use it under a
  /// debugger. After the death of a rank, a call fails only when it has made no progress for 10 s,
  /// so that messages that the rank had sent still arrive.
  bool patient = false;

  /// RONDO_BUFFSIZE, NCCL_BUFFSIZE (bytes, suffixes K, M and G). Memory for all slots of one
  /// channel (one direction between two ranks). 0: the transport's default.
  std::size_t channel_bytes = 0;
  /// RONDO_DEPTH. Number of slots of one channel, 1 to 64. 0: the transport's default.
  int channel_depth = 0;

  /// RONDO_THREADS. Number of threads of a rank that reduce and copy large pieces together, 1 to
  /// 64. Use it on machines with many more processors than ranks. Each communicator has threads of
  /// its own; they stay on the NUMA node of the thread that made it. Results do not depend on it.
  int threads = 1;

  /// RONDO_DEVICE. -1: the buffers of all calls are in host memory. Otherwise they are in memory
  /// that the CUDA device of this number can use. Ranks may name different devices or the same one,
  /// but either all ranks name a device or none does. See "Devices" at Communicator.
  int device = -1;

  /// RONDO_NODE, NCCL_HOSTID. Name of the node that the rank is on; any text, the same for all
  /// ranks of the node. Ranks of different nodes never share memory, even on one machine, and some
  /// algorithms treat traffic inside a node and between nodes differently. Empty: the machine, or
  /// in a container the container's network on it.
  std::string node;

  /// RONDO_BIND. Processors for the thread that makes a communicator, and for all threads that it
  /// starts later. "core": a core for each rank; consecutive ranks get cores near each other.
  /// "socket": all cores of a CPU package for each rank; with 2 packages, the first half of the
  /// ranks gets the first one. A list like "0,2,8-11": the first rank of the machine gets the first
  /// processor, and so on. Ranks that a launcher or an earlier communicator bound to different
  /// processors are not bound again. Empty or "none": create() binds nothing. createAll() never
  /// binds. `rondo run`, `bench` and `train` bind ranks before they start. If it is empty or not
  /// set, `bench` and `topo -p` bind ranks to cores, and so does `train` if there are enough.
  std::string bind;

  /// RONDO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME. Comma list of prefixes of interface names; a leading
  /// '^' excludes them, '=' asks for exact names. Empty: the interface that routes to the
  /// rendezvous address; UniqueId::create(), which has none yet, takes the first interface that is
  /// not loopback. TCP uses all interfaces that match at the same time, in the order of the
  /// list: the first interface of one rank talks to the first of another. With '^' it uses one
  /// interface. The interfaces of a machine must be in different subnets. If one is slow or fails,
  /// the others carry its share.
  std::string socket_interface;
  /// RONDO_SOCKET_FAMILY, NCCL_SOCKET_FAMILY: AF_INET or AF_INET6. Empty: either.
  std::string socket_family;
  /// RONDO_TCP_SOCKETS. Sockets per channel and interface, 1 to 16. Large messages are
  /// striped over them.
  int tcp_sockets = 1;
  /// RONDO_TCP_CONGESTION. Congestion control of the sockets ("reno", "cubic", "bbr"). Empty: the
  /// system's default.
  std::string tcp_congestion;

  /// RONDO_UCX_TLS. The transports that UCX may use, in the syntax of UCX_TLS ("rc,sm", "^tcp").
  /// Empty: UCX_TLS, or if that is not set, UCX's choice.
  std::string ucx_transports;
  /// RONDO_UCX_NET_DEVICES. The network devices that UCX may use, in the syntax of UCX_NET_DEVICES
  /// ("mlx5_0:1,mlx5_1:1"). Empty: UCX_NET_DEVICES, or if that is not set, all.
  std::string ucx_devices;

  /// RONDO_COMM_ID, NCCL_COMM_ID ("host:port"). Address at which rank 0 listens for the others. It
  /// is used instead of the address that a launcher gives, except under `rondo run`.
  std::string comm_id;
  /// RONDO_SECRET_FILE. File of mode 0600 with the job's secret (32 bytes, or 64 hex digits).
  /// A UniqueId contains a secret, so ranks that meet by one need no file. Without a secret, ranks
  /// that meet at comm_id or at a launcher's address accept only loopback addresses.
  std::string secret_file;
  /// RONDO_TLS (0 or 1; the same on all ranks, otherwise Error(init_failed)). With 1, TLS 1.3
  /// encrypts the connections of the control plane and of tcp, also inside a machine, with keys
  /// derived from the job's secret; without one, Error(invalid_argument). Memory that ranks share
  /// is not encrypted, and ucx is not used, because UCX does not encrypt. Needs librondo_tls.so,
  /// and so OpenSSL's libssl; without it, Error(unsupported).
  bool tls = false;

  /// RONDO_DEBUG, NCCL_DEBUG: none, error, warn, info, trace. NCCL's VERSION counts as warn, its
  /// ABORT as info.
  LogLevel log_level = LogLevel::warn;
  /// RONDO_DEBUG_FILE, NCCL_DEBUG_FILE. %h is the host's name, %p the process id. Empty: stderr.
  std::string log_file;

  /// RONDO_DUMP. Folder for dumps of this process's last calls, which `rondo report` reads. A dump
  /// is written when a communicator fails, and on SIGQUIT unless the program handles SIGQUIT. The
  /// first communicator of a process that names a folder decides, and makes the folder (0700).
  /// Empty: no dump is written.
  std::string dump_folder;
  /// RONDO_TRACE. Folder for traces of all calls, one file for each rank, which ui.perfetto.dev
  /// shows and `rondo report --trace` merges. Rank 0's value counts. Creating the communicator then
  /// compares the ranks' clocks, by 16 short messages between rank 0 and each other rank. Empty:
  /// none is written, and calls cost nothing more.
  std::string trace_folder;

  /// Limits of the three durations above. Within them, arithmetic with deadlines cannot
  /// overflow. A heartbeat below its limit would report live ranks as silent, and one above
  /// would never report any.
  static constexpr std::chrono::milliseconds kShortestTimeout{1}, kLongestTimeout{8760L * 3600'000};
  static constexpr std::chrono::milliseconds kShortestHeartbeat{10}, kLongestHeartbeat{3600'000};

  /// Longest name of a node, in bytes.
  static constexpr std::size_t kLongestNode = 255;

  /// Returns the settings of this process's environment. Throws Error(invalid_argument).
  static Options fromEnvironment();
  /// Checks each field as fromEnvironment() checks its variable. Throws Error(invalid_argument)
  /// that names the variable and lists the valid values. Communicator::create() calls it.
  void validate() const;
};

/// One line of `rondo help environment`: a variable, its alias, its default and its meaning.
/// RONDO_SHM_DISABLE has a line too, although it has no field.
struct OptionHelp {
  std::string variable, alias, default_value, meaning;
};
RONDO_API std::vector<OptionHelp> optionHelp();

} // namespace rondo
