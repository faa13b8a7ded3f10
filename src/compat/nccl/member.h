// The rank that a handle refers to: its communicator, its operators and registered buffers, and its
// calls in flight.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "compat/nccl/errors.h"
#include "compat/nccl/values.h"
#include "rondo/communicator.h"

namespace rondo::compat::nccl {

/// Any thread may call. A call in one thread keeps the object alive while another thread destroys
/// the handle.
class Member {
 public:
  Member(Communicator made, const Config& of, int number)
      : comm(std::move(made)), config(of), device(number) {}
  ~Member();

  /// Whether calls return only when they are complete: on host memory, unless the program asked for
  /// the nonblocking mode.
  bool waits() const { return device < 0 && config.blocking; }

  /// A communicator that is being created from this one.
  struct Child {
    ncclComm_t handle;
    bool joins; ///< this rank is a member of it; otherwise the program has no handle
  };

  /// Records calls that were started, or waits for them if calls of this rank block. Throws the
  /// first Refusal of those that have failed. Returns ncclInProgress if ncclCommGetAsyncError()
  /// says when they are done: on host memory in the nonblocking mode. On a GPU the stream says so.
  ncclResult_t started(std::span<Work> works);
  void add(const Child& child);
  /// Whether started work is still in flight. Keeps the first error of the work that has ended.
  bool busy();
  /// Whether communicators are being created from this one.
  bool hasChildren();
  /// Waits for all started work. Throws its Error.
  void drain();
  /// The first error that occurred after the call that started the work had returned.
  std::optional<Refusal> error();
  /// Ends all calls in flight. Afterwards the communicator is idle, which is not an error.
  void revoke();
  bool revoked() const;

  /// Creates a pre-multiplied sum and returns its number.
  ncclRedOp_t addOperator(DataType type, double factor, const void* device_scalar);
  void removeOperator(ncclRedOp_t op);
  /// Throws Refusal(ncclInvalidArgument) for an operator of another communicator or type.
  ReduceOp operatorOf(ncclRedOp_t op, DataType type);

  /// Lets peers read the memory in place where that is possible. Returns a handle for deregister().
  void* registerBuffer(void* memory, std::size_t bytes);
  void deregister(void* handle);

  Communicator comm;
  const Config config;
  const int device; ///< -1: host memory

 private:
  struct Operator {
    DataType type;
    double factor;
    const void* scalar; ///< if not null, each call reads the factor there
  };

  /// Removes work that has ended and keeps the first error. Call with the mutex held.
  void sweep();

  mutable std::mutex mutex_; ///< guards the members below
  std::vector<Work> started_;
  std::vector<Child> children_;
  std::optional<Refusal> error_;
  bool revoked_ = false;
  std::map<ncclRedOp_t, Operator> operators_;
  std::map<void*, std::unique_ptr<Buffer>> buffers_;
};

} // namespace rondo::compat::nccl
