// Writes a rank's calls, and the program's own spans, into a file for ui.perfetto.dev.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fork.h"
#include "base/trace_events.h"
#include "base/unique_fd.h"
#include "observe/follow.h"
#include "observe/recorder.h"
#include "rondo/communicator.h"

namespace rondo::observe {

/// How this process's CLOCK_MONOTONIC becomes the trace's time, which begins at 0 on rank 0.
struct ClockOffset {
  std::int64_t add = 0;     ///< nanoseconds
  std::int64_t error = -1;  ///< nanoseconds by which it may be wrong; negative: not measured
  std::int64_t unix_ns = 0; ///< the wall clock of rank 0 when the trace's time is 0
};

/// The trace of a rank's communicator, with those that are split from it. One low-priority thread
/// reads their records, formats and writes. Calls that it did not read before their memory was
/// needed for others are counted and left out. At a full disk, and at 256 MiB, the trace ends,
/// which the log says once, and the job goes on. All functions: any thread, and none throws for
/// these reasons. In a forked child it does nothing.
class Trace {
 public:
  /// `first`: the first communicator. Makes the folder (mode 0700) and the new file
  /// rondo-trace-JOB-COMMUNICATOR-RANK.json. If it cannot, the log says why, and nothing is
  /// written.
  static std::shared_ptr<Trace> open(const std::string& folder, const Identity& first);
  /// Writes what is left.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Must be called once, before anything is added.
  void begin(const ClockOffset& clock);
  /// Whether there is a file. If not, calls need not be handed over.
  bool writes() const { return static_cast<bool>(file_); }
  /// From now on the recorder's calls are in the trace, which lives as long as the recorder. Call
  /// it between calls.
  static void follow(const std::shared_ptr<Trace>& trace, Recorder& recorder);
  void add(const TraceSpan& span);

 private:
  class Reader;
  struct Source;
  struct Mark {
    std::shared_ptr<Source> source;
    std::uint64_t call;
    int peer;
    std::uint64_t ticks;
    std::string text;
  };

  /// The communicators, spans and marks of one pass.
  struct Look;

  Trace(const std::string& folder, Identity first);
  static void finishAll();
  std::shared_ptr<Source> newSource(const Recorder& recorder);
  void release();
  void wake();
  void main();
  void drain(bool all);
  Look look();
  void take(Source& source, bool all);
  void finish();
  void format(Source& source, const Follower::Call& call);
  void format(Source& source, const Mark& mark, std::uint32_t lane);
  void format(const TraceSpan& span);
  int nameLane(Source& source, std::uint32_t lane);
  double timeOf(std::uint64_t ticks) const;
  void flush();
  int write(const std::string& text);

  const base::Maker maker_{};
  const Identity first_;
  const int rank_;
  base::UniqueFd file_;
  std::string path_;
  ClockOffset clock_;
  std::uint64_t ticks_ = 0;    ///< at the beginning of the trace
  std::int64_t monotonic_ = 0; ///< ... and CLOCK_MONOTONIC
  bool threaded_ = false;      ///< set by begin()

  std::atomic<bool> told_{false};      ///< the log says that a communicator is not traced
  std::atomic<bool> stopping_{true};   ///< begin() has not been called, or finish() has
  std::atomic<std::uint32_t> word_{0}; ///< the thread sleeps on it; a change wakes it
  std::mutex mutex_;
  // Guarded by mutex_.
  int sources_ = 0;
  std::vector<std::shared_ptr<Source>> live_;
  /// Closed and written. Freed by a thread of the program: the SCHED_IDLE writer could be
  /// descheduled while it holds the process-wide lock of the blocks.
  std::vector<std::shared_ptr<Source>> written_out_;
  std::vector<TraceSpan> spans_;
  std::vector<Mark> marks_;
  std::uint64_t left_out_ = 0;

  // Only the thread that writes: the trace's own, and after its end the one that finishes.
  double nanoseconds_per_tick_ = 1;
  base::TraceEvents events_;
  std::map<std::string, int> lanes_; ///< of the program's spans
  std::uint64_t written_ = 0;        ///< bytes
  std::uint64_t calls_ = 0, unwritten_ = 0, lost_ = 0;
  bool ended_ = false; ///< the disk or the file is full
  std::thread thread_;
};

} // namespace rondo::observe
