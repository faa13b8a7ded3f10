// Opens, closes and forgets ranks.
#include "compat/python/rank.h"

#include <algorithm>
#include <future>
#include <thread>

#include "rondo/detail/shims.h"

namespace rondo::compat::python {

namespace {

/// The ranks that are open, for the end of the process. Guarded by the interpreter's lock; never
/// destroyed, since Python may destroy its objects after the statics.
std::vector<Rank*>& all() {
  static auto* const ranks = new std::vector<Rank*>;
  return *ranks;
}

/// Destroys these communicators at the same time; each waits for its calls.
void destroy(std::vector<std::shared_ptr<Communicator>> open) {
  std::vector<std::thread> threads;
  for (auto& one : open)
    if (one) threads.emplace_back([last = std::move(one)]() mutable { last.reset(); });
  for (std::thread& thread : threads) thread.join();
}

} // namespace

Rank::Rank(Communicator comm)
    : comm_(std::make_shared<Communicator>(std::move(comm))),
      rank_(comm_->rank()),
      size_(comm_->size()),
      forks_(forks()) {
  detail::Shims::whileWaiting(*comm_, &Wait::rest);
  all().push_back(this);
}

Rank::~Rank() {
  std::erase(all(), this);
  const Unlocked unlocked; // the calls may need other threads of Python
  comm_.reset();
}

std::shared_ptr<Communicator> Rank::open(const char* call) const {
  if (!comm_) refuse(call, "the communicator is closed");
  if (forks_ != forks())
    refuse(call,
           "this process is a fork of the one that made the communicator; a child makes its "
           "own, in a program that it executes (multiprocessing: start method \"spawn\")");
  return comm_;
}

void Rank::close() {
  std::shared_ptr<Communicator> last = std::exchange(comm_, nullptr);
  if (!last) return;
  if (onMainThread() && forks_ == forks())
    return untilSignal(
        std::async(std::launch::async, [last = std::move(last)]() mutable { last.reset(); }));
  const Unlocked unlocked;
  last.reset();
}

void Rank::closeAll() {
  Unlocked::interpreterEnds();
  std::vector<std::shared_ptr<Communicator>> open;
  for (Rank* const one : all()) open.push_back(std::exchange(one->comm_, nullptr));
  untilSignal(std::async(std::launch::async, destroy, std::move(open)));
}

} // namespace rondo::compat::python
