// OpenRank: a communicator, and the futures and reducers of Python that use it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "compat/python/wait.h"
#include "rondo/communicator.h"
#include "rondo/error.h"
#include "rondo/work.h"

namespace rondo::compat::python {

/// An asynchronous call, which its future refers to. A Work keeps its communicator from leaving the
/// group; this drops the Work when the call has ended, and keeps its result. Any thread may call
/// the functions; they need no lock.
class Flight {
 public:
  explicit Flight(Work work) : work_(std::move(work)) {}

  /// As of Work.
  bool waitFor(std::chrono::nanoseconds limit);
  bool test() { return work().test(); }

 private:
  Work work();

  std::mutex mutex_;
  Work work_; ///< done, if the call has ended
  std::optional<Error> error_;
};

/// A communicator that is open. Calls share it while they run. Functions need no lock of the
/// interpreter; keep(), drop() and start() may be called by several threads.
class OpenRank {
 public:
  explicit OpenRank(Communicator made) : comm_(std::move(made)) {}
  /// Leaves the group: destroys what keep() was given, waits for the calls in flight, and takes
  /// the results of those that futures refer to. A forked child does none of this.
  ~OpenRank();
  OpenRank(const OpenRank&) = delete;
  OpenRank& operator=(const OpenRank&) = delete;

  Communicator& comm() { return *comm_; }
  /// Whether this process is a forked child of the one that made it.
  bool inherited() const { return forks_ != forks(); }

  /// Keeps an object that refers to the communicator, until drop() or the destructor.
  void keep(std::shared_ptr<void> user);
  void drop(const std::shared_ptr<void>& user);
  /// Starts a call by start(communicator), which returns a Work.
  template <class Start>
  std::shared_ptr<Flight> start(const Start& start) {
    auto flight = std::make_shared<Flight>(start(*comm_));
    follow(flight);
    return flight;
  }

 private:
  void follow(const std::shared_ptr<Flight>& flight);

  const unsigned forks_ = forks();
  std::optional<Communicator> comm_;
  std::mutex mutex_; ///< of the members below
  std::vector<std::shared_ptr<void>> users_;
  std::vector<std::weak_ptr<Flight>> flights_;
  std::size_t flights_limit_ = 0; ///< number of flights at which follow() removes those that ended
};

} // namespace rondo::compat::python
