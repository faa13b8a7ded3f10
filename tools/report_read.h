// Reads dumps of the ranks' last calls.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rondo::tools {

struct RecordedCall {
  std::uint64_t number = 0;   ///< counts the calls of the rank on its communicator
  std::uint64_t sequence = 0; ///< of collectives, or of messages to or from a peer
  std::string name;           ///< "AllReduce", "Send"
  bool p2p = false;
  std::optional<std::uint64_t> count;
  std::string type, op, algorithm; ///< empty: the call has none
  std::optional<int> root, peer;
  bool completed = false;              ///< or refused at once, which does not fail a communicator
  std::int64_t created = 0, ended = 0; ///< nanoseconds since 1970

  /// "AllReduce #412 (sum of 1000 float)".
  std::string text() const;
  /// What differs, if this collective is not the same as `other`: "count 999 instead of 1000".
  std::string difference(const RecordedCall& other) const;
};

struct RecordedWait {
  std::uint64_t number = 0;
  int peer = -1;
  std::int64_t idle = 0; ///< nanoseconds without progress
  std::string text;
};

/// Number and bytes of all calls of one collective.
struct RecordedTotal {
  std::uint64_t calls = 0, bytes = 0;
};

struct RecordedFailure {
  std::string code, text;
  int culprit = -1;        ///< rank of the communicator
  int culprit_in_job = -1; ///< the same rank's number in the job
  std::int64_t time = 0;   ///< nanoseconds of the process's monotonic clock; 0: unknown
};

/// What a process sent from one of its addresses to another host, in some time.
struct RecordedLink {
  std::string from, to;    ///< hashes of the addresses
  std::uint64_t bytes = 0; ///< that the other host acknowledged
  std::uint64_t total = 0; ///< bytes, since the connections exist
  double busy = 0;         ///< share of the observed time in which the network sent them, 0 to 1
  double seconds = 0;      ///< the length of that busy time
  double average = 0;      ///< bytes per second of busy time, since the connections exist
  /// Bytes per second, if each of the shortest round trips carries one segment; 0: unknown.
  double segment_rate = 0;
  /// More than two segments were unacknowledged, which a delayed ACK cannot explain.
  bool queued = false;
};

/// What one rank of a communicator did.
struct RecordedRank {
  std::string communicator, job, transports;
  int rank = -1, size = 0;
  bool open = true;
  std::uint64_t entered = 0; ///< number of its last collective
  std::optional<RecordedFailure> failure;
  std::vector<RecordedWait> waits;
  std::vector<RecordedCall> calls;             ///< in order
  std::map<std::string, RecordedTotal> totals; ///< by the collective's name
  std::vector<RecordedLink> links;             ///< of its process
  std::string links_error;                     ///< why the links are not known
  std::string process;                         ///< "host:pid", which others may have, too
  std::uint64_t began = 0;                     ///< when the process made its record; 0: unknown
  bool stopped = false, ended = false;         ///< the process
  std::int64_t time = 0;                       ///< of the dump

  /// Two processes of one number, in two namespaces of a host, did not begin at the same time.
  bool sameProcess(const RecordedRank& other) const {
    return process == other.process && began == other.began;
  }
};

using RecordedRanks = std::map<int, RecordedRank>; ///< by rank

struct Refused {
  std::string file, why;
};

/// The dumps of one job, by communicator and rank.
struct Dumps {
  std::string job;
  int files = 0;
  std::map<std::string, RecordedRanks> communicators;
  std::vector<Refused> refused;
  bool damaged = false; ///< a refused file is a broken dump of Rondo; others are of other jobs
  std::set<std::string> warnings; ///< what was not measured, and why
};

/// The ranks of one process.
struct ProcessDump {
  std::string file;
  std::vector<RecordedRank> ranks;
};

/// Reads one dump, up to its end or the end of the stream. Throws std::exception that says why it
/// is refused.
ProcessDump readDump(std::istream& stream, const std::string& file);

/// Joins the dumps of the job, and keeps the newest of each rank.
Dumps dumpsOf(std::vector<ProcessDump> dumps, const std::string& job);

/// Reads the files of a folder: *.jsonl, and *RANK.json of PyTorch's flight recorder. `job`: whose
/// dumps to take; empty: the one with the most ranks. Files that are broken or of other jobs are
/// refused. Throws Error(invalid_argument) if the folder cannot be read.
Dumps readDumps(const std::string& folder, const std::string& job);

} // namespace rondo::tools
