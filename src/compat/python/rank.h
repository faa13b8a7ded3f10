// A rank as Python holds it: the communicator, whether it is closed, and how calls wait.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compat/python/errors.h"
#include "compat/python/open_rank.h"
#include "compat/python/wait.h"
#include "rondo/communicator.h"

namespace rondo::compat::python {

/// One rank of a group. Calls hold the communicator while they run, so that close() on another
/// thread cannot destroy it under them; they may be its last owner, and then destroy it, which
/// waits, before they take the interpreter's lock again. Futures and reducers do not hold it.
/// Functions need the interpreter's lock and release it while they wait.
class Rank {
 public:
  /// A rank, and the ranks that split(), shrink() and grow() made from it in this process.
  struct Family {
    std::optional<std::string> aborted; ///< the reason that was given to abortFamily()
  };

  explicit Rank(Communicator comm, std::shared_ptr<Family> family = std::make_shared<Family>());
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The communicator. Raises ArgumentError after close(), and in a forked child.
  std::shared_ptr<OpenRank> open(const char* call) const;
  bool closed() const { return !open_; }
  /// With `failure`, first ends the calls in flight of all ranks with an Error that contains it.
  /// Leaves the group as soon as no thread is in a call. A signal whose handler raises ends the
  /// wait; a thread then goes on closing.
  void close(const std::optional<std::string>& failure = {});

  /// Runs a blocking call, call(open rank), without the interpreter's lock. Raises its error, or,
  /// if a signal's handler raised, that; the communicator is then aborted, because outputs may be
  /// half written.
  template <class Call>
  void attend(const CallInfo& info, const Call& call) const {
    std::shared_ptr<OpenRank> rank = open(info.name);
    goesOn();
    const bool main = onMainThread();
    Wait::Interrupt interrupt;
    try {
      const Unlocked unlocked;
      const std::shared_ptr<OpenRank> last = std::move(rank);
      const Wait wait(info, main ? &last->comm() : nullptr, &interrupt);
      call(*last);
    } catch (const Error& error) {
      if (!interrupt) raise(error, info);
    }
    if (interrupt) throw nb::python_error(*interrupt);
  }

  /// Returns function(open rank), which waits for nothing; runs it without the interpreter's lock.
  template <class Function>
  auto ask(const CallInfo& info, const Function& function) const {
    std::shared_ptr<OpenRank> rank = open(info.name);
    try {
      const Unlocked unlocked;
      const std::shared_ptr<OpenRank> last = std::move(rank);
      return function(*last);
    } catch (const Error& error) {
      raise(error, info);
    }
  }

  const std::shared_ptr<Family>& family() const { return family_; }
  /// Aborts the communicators of the rank's family that are open, and those that it gets later.
  void abortFamily(const std::string& reason) const;

  /// Destroys an object that was given to OpenRank::keep(), unless close() has done so.
  void drop(const std::weak_ptr<void>& user) const;

  /// Closes all ranks of this process at the same time, so that none waits for another one's calls.
  static void closeAll();

  /// What an Error of other ranks says of a program or a block that this exception ends; nothing
  /// for None, SystemExit with status 0 and GeneratorExit, which are normal ends.
  static std::optional<std::string> failureBy(nb::handle exception);
  /// The program is ending by this exception. Unless that is a normal end, calls in flight are not
  /// waited for.
  static void programEnds(nb::handle exception);
  /// Undoes programEnds(). Called when the main thread makes a call or a communicator, because then
  /// the program has caught the exception and goes on. On another thread it does nothing.
  static void goesOn();

 private:
  std::shared_ptr<OpenRank> open_; ///< null after close()
  const int rank_, size_;
  const std::shared_ptr<Family> family_;
};

} // namespace rondo::compat::python
