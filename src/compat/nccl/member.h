// A rank behind a handle: its communicator, the operators and buffers that belong to it, and what
// is in flight.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "compat/nccl/errors.h"
#include "compat/nccl/values.h"
#include "rondo/communicator.h"

namespace rondo::compat::nccl {

/// Any thread. A call in another thread keeps it alive while the handle is destroyed.
class Member {
 public:
  Member(Communicator made, const Config& of, int number)
      : comm(std::move(made)), config(of), device(number) {}

  /// Whether calls return when they are done: on host memory, unless the program asked otherwise.
  bool waits() const { return device < 0 && config.blocking; }

  /// A communicator that is being made from this one.
  struct Child {
    ncclComm_t handle;
    bool joins; ///< this rank is in it; the program has no handle otherwise
  };

  /// Takes note of what was started.
  void add(Work work);
  void add(const Child& child);
  /// Whether something that was started is still on its way; keeps the first error of what is not.
  bool busy();
  /// Waits for it. Throws its Error.
  void drain();
  /// What went wrong after the call that started it had returned, if anything.
  std::optional<Refusal> error();
  /// Every call ends; then the communicator is quiet, and that is no error.
  void revoke();
  bool revoked() const;

  /// A pre-multiplied sum: its number.
  ncclRedOp_t addOperator(DataType type, double factor, const void* device_scalar);
  void removeOperator(ncclRedOp_t op);
  /// Throws Refusal(ncclInvalidArgument) for one that is not of this communicator and type.
  ReduceOp operatorOf(ncclRedOp_t op, DataType type);

  /// Makes the memory readable by peers where that can be, and gives it a handle.
  void* registerBuffer(void* memory, std::size_t bytes);
  void deregister(void* handle);

  Communicator comm;
  const Config config;
  const int device; ///< -1: host memory

 private:
  struct Operator {
    DataType type;
    double factor;
    const void* scalar; ///< not null: read by each call
  };

  /// With the mutex: forgets what is done, but for the first error.
  void sweep();

  mutable std::mutex mutex_; ///< guards all that follows
  std::vector<Work> started_;
  std::vector<Child> children_;
  std::optional<Refusal> error_;
  bool revoked_ = false;
  std::map<ncclRedOp_t, Operator> operators_;
  std::map<void*, std::unique_ptr<Buffer>> buffers_;
};

} // namespace rondo::compat::nccl
