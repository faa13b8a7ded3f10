// torch.distributed's backend "rondo": each of its calls as a call of rondo::Communicator.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "compat/torch/work.h"
#include "rondo/communicator.h"
#include "rondo/options.h"

namespace rondo::compat {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

/// One process's place in a group. Tensors are used where they are, but for those that are not
/// contiguous: a copy takes their place (Copies). On a device
/// calls are torch's current stream's, and waiting makes the stream wait, not the thread. Calls
/// with asyncOp off run on the caller's thread and have ended when they return; the others return a
/// Work, which moves on Rondo's helper thread until somebody waits. One thread at a time.
///
/// Errors are Teller::raise()'s. What fails on one rank ends the group on all ranks, but for a
/// ValueError, which is found before anything was sent.
class Backend : public c10d::Backend {
 public:
  /// pg_options of init_process_group() and new_group().
  struct Options : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds limit = kBackendDefaultTimeout)
        : c10d::Backend::Options("rondo", limit), rondo(rondo::Options::fromEnvironment()) {}
    rondo::Options rondo; ///< the two timeouts in it are not used, `timeout` is
  };

  /// Collective; returns when all ranks are there. Throws DistBackendError that lists the missing
  /// ones when the timeout passes.
  Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
          c10::intrusive_ptr<Options> options);
  ~Backend() override;

  const std::string getBackendName() const override { return "rondo"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  /// Of calls from now on and of those in flight.
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {} // all begin with 0
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  /// What has ended the group, as soon as this rank has heard of it, also between its calls.
  c10d::ErrorType getError() override;

  bool supportsSplitting() const override { return true; }
  /// The ranks of `ranks` call; others get nothing.
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& opts) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& opts,
                                          const int& rank, const int& size) override;

  /// Memory that the other processes of this machine read in place, as for DDP's buckets.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  bool supportsCoalescing() const override { return true; }
  /// Calls of this thread, of whatever group, are only noted until endCoalescing() starts them.
  void startCoalescing() override;
  WorkPointer endCoalescing() override;

  /// Ends all calls in flight, on all ranks, with an error.
  void abort() override;
  /// Waits for the calls in flight, and leaves the group.
  void shutdown() override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  /// A sparse tensor's call has ended when it returns, also with asyncOp.
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
  /// Messages of one tag between two ranks arrive in the order of the calls. Tags other than 0 and
  /// receives from any rank are Messenger's; throws NotImplementedError for those on a device.
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& opts) override;
  /// A barrier; its DistBackendError names all ranks that did not come.
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

 private:
  /// This process among the ranks for tensors there; the first call on a device makes it, which all
  /// ranks do together. Throws NotImplementedError where Rondo cannot use the device.
  const std::shared_ptr<Member>& memberOn(at::Device device, const char* call);
  /// Makes a call in the form that `info` asks for: now(communicator), or begin(communicator),
  /// which returns its rondo::Work.
  template <class Now, class Begin>
  WorkPointer make(CallInfo info, const Now& now, const Begin& begin);
  /// Makes one call of Rondo.
  template <auto blocking, auto async, class... Arguments>
  WorkPointer run(CallInfo info, const Arguments&... arguments);
  /// Makes all calls that `each` makes as one.
  template <class Each>
  WorkPointer runTogether(CallInfo info, const Each& each);
  WorkPointer receive(Tensors& tensors, int from, int tag);
  Messenger& messengerFor(at::Device device, const char* call);
  bool later(const CallInfo& info) const;

  const c10::intrusive_ptr<Options> options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<Member> member_; ///< null after shutdown()
  std::map<c10::DeviceIndex, std::shared_ptr<Member>> on_devices_;
  std::shared_ptr<Region> region_; ///< while calls are coalesced
  c10d::ErrorType failed_ = c10d::ErrorType::SUCCESS;
  uint64_t sequence_ = 0;
};

} // namespace rondo::compat
