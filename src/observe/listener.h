// What follows a rank's calls: the program's callbacks, and the reader of a trace.
#pragma once

#include <cstdint>
#include <string>

#include "observe/layout.h"

namespace rondo::observe {

/// Hears of every call of one rank of a communicator. All functions need the communicator's mutex;
/// they must not throw, nor use the communicator.
class CallListener {
 public:
  virtual ~CallListener() = default;
  /// A call begins; Record::ended is 0.
  virtual void begun(const Record& call) = 0;
  /// It has ended.
  virtual void ended(const Record& call) = 0;
};

/// Reads the record on a thread of its own. All functions need the communicator's mutex; they must
/// not throw, nor use the communicator.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  /// Half of the record has been written since the last call of this: read it soon, or calls are
  /// overwritten.
  virtual void filled() = 0;
  /// The call makes no progress; `peer`: the rank that it waits for, or -1.
  virtual void waits(std::uint64_t number, int peer, const std::string& text) = 0;
};

} // namespace rondo::observe
