// OpenRank: a communicator, and the reducers of Python that use it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "compat/python/wait.h"
#include "rondo/communicator.h"

namespace rondo::compat::python {

/// A communicator that is open. Calls share it while they run. Functions need no lock of the
/// interpreter; keep() and drop() may be called by several threads.
class OpenRank {
 public:
  explicit OpenRank(Communicator made) : comm_(std::move(made)) {}
  /// Leaves the group: destroys what keep() was given, and waits for the calls in flight. A forked
  /// child does none of this.
  ~OpenRank();
  OpenRank(const OpenRank&) = delete;
  OpenRank& operator=(const OpenRank&) = delete;

  Communicator& comm() { return comm_; }
  /// Whether this process is a forked child of the one that made it.
  bool inherited() const { return forks_ != forks(); }

  /// Keeps an object that refers to the communicator, until drop() or the destructor.
  void keep(std::shared_ptr<void> user);
  void drop(const std::shared_ptr<void>& user);

 private:
  const unsigned forks_ = forks();
  Communicator comm_;
  std::mutex mutex_;                         ///< of `users_`
  std::vector<std::shared_ptr<void>> users_; ///< destroyed before the communicator
};

} // namespace rondo::compat::python
