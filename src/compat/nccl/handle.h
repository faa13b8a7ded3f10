// What an ncclComm_t points to. It outlives its communicator, so that a handle that is used too
// late is found, and refused.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>

#include "compat/nccl/errors.h"
#include "compat/nccl/member.h"

/// Any thread.
struct ncclComm {
 public:
  using Member = rondo::compat::nccl::Member;
  using Making = std::variant<std::future<rondo::Communicator>,
                              std::future<std::optional<rondo::Communicator>>>;

  /// A handle to what is being made. Never freed: some 200 bytes for each communicator.
  static ncclComm* make(Making making, const rondo::compat::nccl::Config& config, int device);
  /// Throws Refusal(ncclInvalidArgument) for null and for what make() did not give.
  static ncclComm& known(ncclComm_t handle);

  /// The rank. Throws Refusal if it is not made yet, could not be made, or is no more.
  std::shared_ptr<Member> member();
  /// As member(), for calls that move data: not once it is finalized.
  std::shared_ptr<Member> active();

  /// Waits until it is made, or split without this rank. Throws what went wrong.
  void await();
  /// Nothing while it is being made; then what came of it.
  std::optional<rondo::compat::nccl::Refusal> made();
  /// ncclCommGetAsyncError(): where the rank is, and what is wrong with it.
  rondo::compat::nccl::Refusal state();
  bool blocking() const { return config_.blocking; }
  void finalize();
  /// The handle leads nowhere from now on; the communicator ends with the last call that uses it.
  /// Waits for one that is being made.
  std::shared_ptr<Member> end();

 private:
  ncclComm() = default;
  /// With the mutex: takes over what is made. Whether it is.
  bool settle();
  std::shared_ptr<Member> memberLocked();

  std::mutex mutex_; ///< guards all that follows
  std::optional<Making> making_;
  rondo::compat::nccl::Config config_; ///< never changes
  int device_ = -1;
  std::shared_ptr<Member> member_;
  std::optional<rondo::compat::nccl::Refusal> failed_; ///< it could not be made
  bool finalized_ = false, ended_ = false;
};
