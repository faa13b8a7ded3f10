// Reads what the kernel knows about the TCP connections of processes, from outside.
#pragma once

#include <linux/inet_diag.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/descriptor.h"

namespace rondo::tools {

/// Counts what TCP connections carry between two readings. The processes take no part in it. A
/// process in another network namespace is read only if this user may enter that namespace. The
/// kernel lists all connections of a namespace while the processes have new sockets; otherwise it
/// is asked for theirs one by one, so that connections of other processes cost nothing.
class LinkCounters {
 public:
  /// `connecting`: a socket that is no connection for so long after it was first seen will not
  /// become one: it is of another kind, or listens.
  explicit LinkCounters(std::chrono::nanoseconds connecting = std::chrono::seconds(10))
      : connecting_(connecting) {}

  /// Reads the counters of these processes' connections to other hosts.
  void read(const std::vector<std::string>& pids);

  /// Whether the processes have connections to other hosts.
  bool any() const { return !now_.sockets.empty(); }

  /// The members of a JSON object that describe the process's links, each with a comma after it;
  /// empty before the second reading. A link is all connections from one address to another; the
  /// text has hashes of the addresses. If the kernel did not list the connections, the only member
  /// is links_error, which says why.
  std::string text(const std::string& pid) const;

 private:
  struct Connection {
    std::uint64_t from = 0, to = 0; ///< hashes of the addresses
    std::uint64_t acknowledged = 0; ///< bytes; of a link: between the two readings
    std::uint64_t total = 0;        ///< of a link: bytes since its connections exist
    std::uint64_t busy =
        0; ///< microseconds with unacknowledged data that the receiver has room for
    std::uint64_t average = 0; ///< bytes per second of `busy`, since the connection exists
    /// Bytes per second, if each of the shortest round trips carries one segment; 0: unknown.
    std::uint64_t segment_rate = 0;
    bool queued = false;
  };
  struct Reading {
    std::int64_t time = 0;                       ///< nanoseconds
    std::map<std::uint64_t, Connection> sockets; ///< by inode
  };

  struct Process {
    ino_t space = 0; ///< its network namespace
    std::set<std::uint64_t> inodes = {};
  };
  /// How the kernel calls a connection.
  struct Name {
    int family = 0;
    inet_diag_sockid id = {};
    bool local = false; ///< from an address to itself
  };
  /// A network namespace, and the sockets of the processes there.
  struct Namespace {
    Descriptor kernel; ///< a socket to the kernel there
    std::string pid;   ///< of one of the processes
    std::set<std::uint64_t> inodes;
    std::map<std::uint64_t, Name> names;           ///< of connections, by inode
    std::map<std::uint64_t, std::int64_t> unnamed; ///< other sockets: time of the first reading
    std::string error;                             ///< why it could not be read; empty: it was
  };
  using Use = std::function<void(const inet_diag_msg& socket, std::size_t bytes)>;

  void readNamespace(ino_t number, Namespace& space);
  void readAll(Namespace& space);
  void readKnown(Namespace& space);
  /// Returns the error number; 0: it has answered.
  int ask(int kernel, unsigned flags, const Name& name, const Use& use);
  void add(const inet_diag_msg& socket, std::size_t bytes);

  std::chrono::nanoseconds connecting_;
  std::map<ino_t, Namespace> spaces_;
  std::map<std::string, Process> processes_;
  Reading before_, now_;
  std::uint32_t request_ = 0; ///< number of the last one
};

} // namespace rondo::tools
