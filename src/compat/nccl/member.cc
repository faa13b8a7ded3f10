// Implements Member: the operators, registered buffers and calls in flight of one rank.
#include "compat/nccl/member.h"

#include <unistd.h>

#include <cstdint>
#include <deque>
#include <iterator>
#include <string>
#include <utility>

#include "compat/nccl/handle.h"
#include "rondo/detail/shims.h"

namespace rondo::compat::nccl {

namespace {

/// Numbers of programs' own operators, across the process, so that no number is valid on two
/// communicators. Those of destroyed operators are used again, the oldest first.
class OperatorNumbers {
 public:
  static OperatorNumbers& ofProcess() {
    static auto& one = *new OperatorNumbers; // never destroyed: programs may call during exit
    return one;
  }
  ncclRedOp_t take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return static_cast<ncclRedOp_t>(next_++);
    const ncclRedOp_t number = free_.front();
    free_.pop_front();
    return number;
  }
  void giveBack(ncclRedOp_t number) {
    const std::lock_guard lock(mutex_);
    free_.push_back(number);
  }

 private:
  std::mutex mutex_;
  int next_ = ncclNumOps;
  std::deque<ncclRedOp_t> free_;
};

/// Whether the call is done. Makes progress unless `polled`, which it sets: one poll is for all
/// calls of a communicator.
bool ended(Work& call, bool& polled) {
  if (detail::Shims::ended(call)) return true;
  return !std::exchange(polled, true) && call.test();
}

} // namespace

Member::~Member() {
  for (const auto& [number, made] : operators_) OperatorNumbers::ofProcess().giveBack(number);
}

void Member::sweep() {
  bool polled = false;
  std::erase_if(started_, [&](Work& one) {
    if (!ended(one, polled)) return false;
    try {
      one.wait();
    } catch (const Error&) {
      if (!error_) error_ = currentRefusal();
    }
    return true;
  });
  std::erase_if(children_, [this](const Child& child) {
    const auto made = child.handle->made();
    if (!made) return false;
    if (!child.joins && made->result != ncclSuccess && !error_) error_ = *made;
    return true;
  });
}

ncclResult_t Member::started(std::span<Work> works) {
  std::optional<Refusal> failed;
  std::vector<Work> in_flight;
  bool polled = false;
  for (Work& work : works) {
    if (!waits() && !ended(work, polled)) {
      in_flight.push_back(std::move(work));
      continue;
    }
    try {
      work.wait();
    } catch (const Error&) {
      if (!failed) failed = currentRefusal();
    }
  }
  if (!in_flight.empty()) {
    const std::lock_guard lock(mutex_);
    sweep();
    started_.insert(started_.end(), std::make_move_iterator(in_flight.begin()),
                    std::make_move_iterator(in_flight.end()));
  }
  if (failed) throw *failed;
  return in_flight.empty() || device >= 0 ? ncclSuccess : ncclInProgress;
}

void Member::add(const Child& child) {
  const std::lock_guard lock(mutex_);
  sweep();
  children_.push_back(child);
}

bool Member::busy() {
  const std::lock_guard lock(mutex_);
  sweep();
  return !started_.empty() || !children_.empty();
}

bool Member::hasChildren() {
  const std::lock_guard lock(mutex_);
  sweep();
  return !children_.empty();
}

void Member::drain() {
  std::vector<Work> all;
  {
    const std::lock_guard lock(mutex_);
    all = started_;
  }
  for (Work& one : all) one.wait();
}

std::optional<Refusal> Member::error() {
  const std::lock_guard lock(mutex_);
  if (revoked_) return std::nullopt;
  if (error_) return error_;
  const auto failure = comm.failure();
  if (!failure) return std::nullopt;
  return Refusal{resultOf(failure->code()), failure->what()};
}

void Member::revoke() {
  {
    const std::lock_guard lock(mutex_);
    revoked_ = true;
  }
  comm.abort("it was revoked");
}

bool Member::revoked() const {
  const std::lock_guard lock(mutex_);
  return revoked_;
}

ncclRedOp_t Member::addOperator(DataType type, double factor, const void* device_scalar) {
  const ncclRedOp_t op = OperatorNumbers::ofProcess().take();
  const std::lock_guard lock(mutex_);
  operators_[op] = {type, factor, device_scalar};
  return op;
}

void Member::removeOperator(ncclRedOp_t op) {
  const std::lock_guard lock(mutex_);
  if (operators_.erase(op) == 0)
    refuse(ncclInvalidArgument, "operator " + std::to_string(static_cast<int>(op)) +
                                    " is none that was made for this communicator");
  OperatorNumbers::ofProcess().giveBack(op);
}

ReduceOp Member::operatorOf(ncclRedOp_t op, DataType type) {
  if (op < ncclNumOps) return builtInOperator(op);
  const std::lock_guard lock(mutex_);
  const auto found = operators_.find(op);
  if (found == operators_.end())
    refuse(ncclInvalidArgument, "operator " + std::to_string(static_cast<int>(op)) +
                                    " is none that was made for this communicator");
  const Operator& made = found->second;
  if (made.type != type)
    refuse(ncclInvalidArgument, "the operator was made for " + std::string(name(made.type)) +
                                    ", the call is of " + std::string(name(type)));
  if (!made.scalar) return ReduceOp::preMulSum(made.factor);
  return device >= 0 ? ReduceOp::preMulSumAt(made.scalar)
                     : ReduceOp::preMulSum(scalarOf(made.scalar, type));
}

void* Member::registerBuffer(void* memory, std::size_t bytes) {
  needAddress(memory, "the buffer");
  if (bytes == 0) refuse(ncclInvalidArgument, "the buffer has no bytes");
  auto buffer = std::make_unique<Buffer>();
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + page - 1) / page * page,
                       last = (begin + bytes) / page * page;
  try {
    if (device < 0 && last > first)
      *buffer = comm.registerBuffer(reinterpret_cast<void*>(first), last - first);
  } catch (const Error& error) {
    // Registration is optional, as in NCCL: memory that cannot be shared, or that a call in flight
    // uses, is used without it.
    if (error.code() == ErrorCode::system) throw;
  }
  const std::lock_guard lock(mutex_);
  void* const handle = buffer.get();
  buffers_[handle] = std::move(buffer);
  return handle;
}

void Member::deregister(void* handle) {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(handle);
  if (found == buffers_.end())
    refuse(ncclInvalidArgument, "the handle is of no buffer that this communicator knows");
  found->second->release();
  buffers_.erase(found);
}

} // namespace rondo::compat::nccl
