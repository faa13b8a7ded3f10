// What a Work refers to.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "comm/call.h"
#include "engine/engine.h"
#include "rondo/stream.h"
#include "rondo/work.h"

namespace rondo::comm {

class CommunicatorImpl;

/// One asynchronous call, or a group of them.
class WorkState : public std::enable_shared_from_this<WorkState> {
 public:
  std::shared_ptr<CommunicatorImpl> communicator; ///< null: a group
  std::unique_ptr<const KeptCall> call;           ///< of a Group only
  Stream stream;                                  ///< of a Group only: that the call goes to
  engine::Run run;
  std::vector<std::shared_ptr<WorkState>> parts; ///< of a group
  std::atomic<bool> held{false};                 ///< its Group has not started it yet

  /// Whether the call, or every call of the group, is done.
  bool done() const;
  /// From now on somebody waits: deadlines count.
  void attend();
  /// Throws what went wrong; of a group, the first error.
  void rethrow() const;

  static Work handle(std::shared_ptr<WorkState> state) { return Work(std::move(state)); }
};

} // namespace rondo::comm
