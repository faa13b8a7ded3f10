// What hears of a rank's calls: traces, and the program's callbacks.
#pragma once

#include <cstddef>
#include <string>

#include "observe/layout.h"

namespace rondo::observe {

/// Hears of every call of one rank of a communicator. All functions need the communicator's mutex;
/// they must not throw, nor use the communicator. `lane`: no other call in flight has it, and it is
/// 0 if the program makes one call at a time.
class CallListener {
 public:
  virtual ~CallListener() = default;
  /// A call begins; Record::ended is 0.
  virtual void begun(const Record& call, std::size_t lane) = 0;
  /// It has ended.
  virtual void ended(const Record& call, std::size_t lane) = 0;
  /// It makes no progress; `peer`: the rank that it waits for, or -1.
  virtual void waits(const Record& call, std::size_t lane, int peer, const std::string& text) = 0;
};

} // namespace rondo::observe
