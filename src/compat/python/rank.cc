// Opens, closes and forgets ranks.
#include "compat/python/rank.h"

#include <pthread.h>

#include <algorithm>
#include <thread>

namespace rondo::compat::python {

namespace {

/// Number of forks between the first process and this one.
unsigned& forks() {
  static unsigned count = 0;
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++count; });
  static_cast<void>(registered);
  return count;
}

/// The ranks that are open, for the end of the process. Guarded by the interpreter's lock; never
/// destroyed, since Python may destroy its objects after the statics.
std::vector<Rank*>& all() {
  static auto* const ranks = new std::vector<Rank*>;
  return *ranks;
}

/// Destroying a communicator waits for its calls, which may need other threads of Python.
void destroy(std::shared_ptr<Communicator> comm) {
  const Unlocked unlocked;
  comm.reset();
}

} // namespace

Rank::Rank(Communicator comm)
    : comm_(std::make_shared<Communicator>(std::move(comm))),
      rank_(comm_->rank()),
      size_(comm_->size()),
      forks_(forks()) {
  comm_->whileWaiting(&Wait::rest);
  all().push_back(this);
}

Rank::~Rank() {
  std::erase(all(), this);
  close();
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
  if (comm_) destroy(std::exchange(comm_, nullptr));
}

void Rank::closeAll() {
  Unlocked::interpreterEnds();
  std::vector<std::shared_ptr<Communicator>> open;
  for (Rank* const one : all()) open.push_back(std::exchange(one->comm_, nullptr));
  const Unlocked unlocked;
  std::vector<std::thread> threads;
  for (auto& one : open)
    if (one) threads.emplace_back([last = std::move(one)]() mutable { last.reset(); });
  open.clear();
  for (std::thread& thread : threads) thread.join();
}

} // namespace rondo::compat::python
