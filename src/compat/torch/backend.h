// torch.distributed's backend "rondo": maps each call to a call of rondo::Communicator.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "compat/torch/work.h"
#include "rondo/communicator.h"
#include "rondo/options.h"

namespace rondo::compat {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

/// One rank of a group. Contiguous tensors are used in place; others are replaced by a copy
/// (Copies). Calls on a device run on torch's current stream, and waiting makes the stream wait,
/// not the thread. Without asyncOp, a call runs on the caller's thread and has ended when it
/// returns. With asyncOp it returns a Work, which Rondo's helper thread moves until a thread of the
/// program waits. Any thread may call; the program ensures that its calls have the same order on
/// all ranks.
///
/// Throws the exceptions of Teller::raise(). A failure on one rank ends the group on all ranks. A
/// ValueError does not, because it is detected before anything is sent.
class Backend : public c10d::Backend {
 public:
  /// The pg_options of init_process_group() and new_group().
  struct Options : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds limit = kBackendDefaultTimeout)
        : c10d::Backend::Options("rondo", limit), rondo(rondo::Options::fromEnvironment()) {}
    rondo::Options rondo; ///< its two timeouts are not used; c10d's `timeout` replaces them
  };

  /// Collective: returns when all ranks have called it. After the timeout, throws a
  /// DistBackendError that lists the missing ranks.
  Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
          c10::intrusive_ptr<Options> options);
  /// A group of a communicator that exists already. `member`: in host memory.
  Backend(const c10::intrusive_ptr<c10d::Store>& store, c10::intrusive_ptr<Options> options,
          std::shared_ptr<Member> member);
  ~Backend() override;

  const std::string getBackendName() const override { return "rondo"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  /// Sets the timeout of new calls and of calls in flight.
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {} // all ranks begin with 0
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  /// The error that has ended the group, also between calls, as soon as it is known to this rank.
  c10d::ErrorType getError() override;

  bool supportsSplitting() const override { return true; }
  /// Collective over the members of `ranks`. Returns null on other ranks.
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& opts) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& opts,
                                          const int& rank, const int& size) override;

  // These two override functions of torch 2.15. Older versions of torch do not have them.
  bool supportsShrinking() const { return true; } // NOLINT(modernize-use-override)
  /// Communicator::shrink(). Collective over the ranks that are not excluded; the others may be
  /// dead. It works after the group has failed. With the flag SHRINK_ABORT (1) it first aborts the
  /// group, which ends the calls in flight.
  c10::intrusive_ptr<c10d::Backend> shrink( // NOLINT(modernize-use-override)
      const std::vector<int64_t>& ranks_to_exclude, int shrink_flags,
      const c10::intrusive_ptr<c10d::Backend::Options>& opts_override);

  /// Tensors of allocateTensor(), such as DDP's buckets, are in memory that the other ranks of this
  /// node read in place.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  bool supportsCoalescing() const override { return true; }
  /// From now on this thread's calls, in any group, are only recorded. endCoalescing() starts them;
  /// if several groups coalesce calls, the last endCoalescing() does. A call that throws meanwhile
  /// ends the region, and none of its calls are made. See Region.
  void startCoalescing() override;
  WorkPointer endCoalescing() override;

  /// Ends all calls in flight with an error, on all ranks. `reason` follows "rank N aborted: " in
  /// it.
  void abort() override { abort("its program aborted the group"); }
  void abort(const std::string& reason);
  /// Waits for the calls in flight, and leaves the group. Calls that do not end before the timeout,
  /// and receives by Messenger, end with an error. Works of calls that have ended remain usable.
  void shutdown() override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  /// A call with a sparse tensor has ended when it returns, even with asyncOp.
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& opts) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& opts) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& opts) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& opts) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& opts) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& opts) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& opts) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& opts) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& opts) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& opts) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                            const c10d::AllToAllOptions& opts) override;
  /// Messages of one tag between two ranks arrive in the order of the calls. Messenger handles tags
  /// other than 0 and receives from any rank; on a device they throw NotImplementedError.
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& opts) override;
  /// A barrier. Its DistBackendError begins with Gloo's text, and names all missing ranks.
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

 private:
  /// Returns this process's rank for tensors on the device. The first call on a device creates it,
  /// which is collective. Throws NotImplementedError if Rondo cannot use the device.
  std::shared_ptr<Member> memberOn(at::Device device, const char* call);
  /// Makes a call, blocking or not as `info` says: by now(communicator), or by begin(communicator),
  /// which returns the call's rondo::Work.
  template <class Now, class Begin>
  WorkPointer make(CallInfo info, const Now& now, const Begin& begin);
  /// Makes one Rondo call: of equal blocks, or by two member functions of Communicator (v-forms).
  WorkPointer run(CallInfo info, const CollectiveCall& call);
  template <auto blocking, auto async, class... Arguments>
  WorkPointer run(CallInfo info, const Arguments&... arguments);
  /// Runs all Rondo calls that `each` makes as one group.
  template <class Each>
  WorkPointer runTogether(CallInfo info, const Each& each);
  WorkPointer receive(Tensors& tensors, int from, int tag);
  Messenger& messengerFor(at::Device device, const char* call);
  bool later(const CallInfo& info) const;
  /// Abandons this group's region if it is that of this thread.
  static void leave(const std::shared_ptr<Region>& region);

  const c10::intrusive_ptr<Options> options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<uint64_t> sequence_{0};
  std::mutex meeting_mutex_;       ///< held while this rank meets the others for a device
  std::mutex mutex_;               ///< guards the members below
  std::shared_ptr<Member> member_; ///< null after shutdown()
  std::map<c10::DeviceIndex, std::shared_ptr<Member>> on_devices_;
  std::shared_ptr<Region> region_; ///< while this group coalesces calls
  c10d::ErrorType failed_ = c10d::ErrorType::SUCCESS;
};

} // namespace rondo::compat
