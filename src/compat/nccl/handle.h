// The object that an ncclComm_t points to. It outlives its communicator, so that a call with the
// handle of a destroyed communicator is detected and refused.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>

#include "compat/nccl/errors.h"
#include "compat/nccl/member.h"

/// Any thread may call.
struct ncclComm {
 public:
  using Member = rondo::compat::nccl::Member;
  using Making = std::variant<std::future<rondo::Communicator>,
                              std::future<std::optional<rondo::Communicator>>>;

  /// Creates a handle for a communicator that is being created. Handles are never freed, which
  /// costs about 200 bytes for each communicator.
  static ncclComm* make(Making making, const rondo::compat::nccl::Config& config, int device);
  /// Checks a handle. Throws Refusal(ncclInvalidArgument) for null, and for a pointer that make()
  /// did not return.
  static ncclComm& known(ncclComm_t handle);

  /// Returns the rank. Throws Refusal if the communicator is not created yet, could not be created,
  /// or was destroyed.
  std::shared_ptr<Member> member();
  /// As member(), for calls that move data: also throws if the communicator was finalized.
  std::shared_ptr<Member> active();

  /// Waits until the communicator is created, or a split without this rank is complete. Throws
  /// Refusal if the creation failed.
  void await();
  /// nullopt while the communicator is being created; then the result of the creation.
  std::optional<rondo::compat::nccl::Refusal> made();
  /// If the communicator is being created: fails its creation with this error, and gives it to a
  /// thread, which aborts the communicator when it is created.
  void abortMaking(const rondo::compat::nccl::Refusal& why);
  /// For ncclCommGetAsyncError(): ncclInProgress, ncclSuccess, or the rank's error.
  rondo::compat::nccl::Refusal state();
  void finalize();
  /// Detaches the communicator from the handle and returns it. It ends when the last call that uses
  /// it returns. If the communicator is being created, waits for it; with `abort`, returns nullptr
  /// at once, and a thread aborts the communicator when it is created.
  std::shared_ptr<Member> end(bool abort);

 private:
  ncclComm() = default;
  /// Stores the communicator once it is created. Returns whether creation has ended. Call with the
  /// mutex held.
  bool settle();
  /// Call with the mutex held.
  void abortMakingLocked(const rondo::compat::nccl::Refusal& why);
  std::shared_ptr<Member> memberLocked();

  std::mutex mutex_; ///< guards the members below
  std::optional<Making> making_;
  rondo::compat::nccl::Config config_; ///< never changes
  int device_ = -1;
  std::shared_ptr<Member> member_;
  std::optional<rondo::compat::nccl::Refusal> failed_; ///< why it could not be created
  bool finalized_ = false, ended_ = false;
};
