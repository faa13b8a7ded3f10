// The group's calls: tensors become arrays, lists become blocks, and one call of Rondo is made.
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "compat/torch/backend.h"
#include "compat/torch/streams.h"
#include "compat/torch/tensors.h"

namespace rondo::compat {

namespace {

using Type = c10d::OpType;
using Milliseconds = std::chrono::milliseconds;

[[noreturn]] void refuse(const char* call, const std::string& why) {
  C10_THROW_ERROR(ValueError, std::string("rondo: ") + call + ": " + why);
}

void require(bool right, const char* call, const char* why) {
  if (!right) refuse(call, why);
}

/// Of lists of which a rank has one.
const Tensors& list(const std::vector<Tensors>& lists, const char* call) {
  require(lists.size() == 1, call, "a rank has one list of tensors in each call");
  return lists.front();
}

/// Elements of a tensor with another shape would silently get other places. Those of other counts
/// belong to ranks with more or fewer of them, which they agree on when they talk.
void requireShapes(const Tensors& tensors, const at::Tensor& like, const char* call) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() != like.numel() || tensor.sizes() == like.sizes()) continue;
    std::ostringstream why;
    why << "a list has a tensor of size " << tensor.sizes()
        << ", this rank's other tensor is of size " << like.sizes()
        << "; they must have the same shape, as .view() or .reshape() gives it";
    refuse(call, why.str());
  }
}

struct Pair {
  Array input, output;
};

/// Tensors of which one has `size` times as many elements.
Pair scaled(const at::Tensor& input, const at::Tensor& output, int size, const char* call,
            Array (*as)(const at::Tensor&, const char*), bool output_larger) {
  require(input.scalar_type() == output.scalar_type(), call, "input and output differ in type");
  const Pair pair{as(input, call), as(output, call)};
  const Array& small = output_larger ? pair.input : pair.output;
  const Array& large = output_larger ? pair.output : pair.input;
  require(large.count == small.count * static_cast<std::size_t>(size), call,
          output_larger ? "the output must have as many elements as all ranks' inputs"
                        : "the input must have as many elements as all ranks' outputs");
  return pair;
}

std::vector<Pair> scaledAll(const Tensors& inputs, const Tensors& outputs, int size,
                            const char* call, Array (*as)(const at::Tensor&, const char*),
                            bool output_larger) {
  require(inputs.size() == outputs.size(), call, "there must be as many inputs as outputs");
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    pairs.push_back(scaled(inputs[i], outputs[i], size, call, as, output_larger));
  return pairs;
}

Tensors joined(Tensors first, const Tensors& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Of calls that go together, one for each tensor.
struct Operators {
  Operators(const c10d::ReduceOp& op, const Tensors& tensors, const char* call) {
    for (const at::Tensor& tensor : tensors) {
      const Operator one = toOp(op, tensor, call);
      of.push_back(one.op);
      reads = joined(std::move(reads), one.reads);
    }
  }

  std::vector<ReduceOp> of;
  Tensors reads;
};

/// Where all tensors of a call are.
at::Device deviceOf(const CallInfo& info) {
  std::optional<at::Device> device;
  for (const Tensors* tensors : {&info.outputs, &info.inputs})
    for (const at::Tensor& tensor : *tensors) {
      require(!device || *device == tensor.device(), info.name, "tensors on different devices");
      device = tensor.device();
    }
  return device.value_or(at::kCPU);
}

/// Of the calls that this thread coalesces, of all groups.
thread_local int regions = 0;

} // namespace

bool Backend::later(const CallInfo& info) const {
  return info.async || info.timeout > kNoTimeout || regions > 0;
}

void Backend::startCoalescing() {
  memberOn(at::kCPU, "coalescing");
  TORCH_CHECK(!region_, "rondo: calls of this group are being coalesced already");
  region_ = std::make_shared<Region>();
  ++regions;
}

WorkPointer Backend::endCoalescing() {
  TORCH_CHECK(region_, "rondo: no calls of this group are being coalesced");
  const auto region = std::exchange(region_, nullptr);
  --regions;
  CallInfo info{.type = Type::COALESCED, .name = "coalesced calls"};
  auto work = c10::make_intrusive<Work>(member_, std::move(info), ++sequence_, region);
  region->open = false;
  try {
    work->started(region->group.start(), region->stream);
  } catch (const Error& error) {
    member_->raise("coalesced calls", error);
  }
  return work;
}

template <class Now, class Begin>
WorkPointer Backend::make(CallInfo info, const Now& now, const Begin& begin) {
  const at::Device device = deviceOf(info);
  const std::shared_ptr<Member> member = memberOn(device, info.name);
  Communicator& at = member->communicator;
  const bool at_once = device.is_cpu() && !later(info), waits = !info.async;
  const char* const name = info.name;
  if (region_)
    for (const Tensors* tensors : {&info.outputs, &info.inputs})
      region_->tensors.insert(region_->tensors.end(), tensors->begin(), tensors->end());
  auto work = c10::make_intrusive<Work>(member, std::move(info), ++sequence_, region_);
  try {
    if (at_once) {
      now(at);
    } else {
      const auto stream = currentStream(device);
      if (stream) at.setStream(toStream(*stream));
      if (region_) region_->stream = stream;
      work->started(begin(at), stream);
    }
  } catch (const Error& error) {
    member->raise(name, error);
  }
  if (!at_once && waits) work->wait();
  return work;
}

template <auto blocking, auto async, class... Arguments>
WorkPointer Backend::run(CallInfo info, const Arguments&... arguments) {
  return make(
      std::move(info), [&](Communicator& at) { (at.*blocking)(arguments...); },
      [&](Communicator& at) { return (at.*async)(arguments...); });
}

template <class Each>
WorkPointer Backend::runTogether(CallInfo info, const Each& each) {
  return make(
      std::move(info),
      [&](Communicator& at) {
        Group group;
        each(at);
        group.end();
      },
      [&](Communicator& at) {
        Group group;
        each(at);
        return group.start();
      });
}

WorkPointer Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const char* const name = "broadcast";
  const Array a = toMove(single(tensors, name), name);
  return run<&Communicator::broadcast, &Communicator::broadcastAsync>(
      {Type::BROADCAST, name, opts.asyncOp, opts.timeout, tensors}, a.data, a.data, a.count, a.type,
      static_cast<int>(opts.rootRank));
}

WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const char* const name = "all_reduce";
  const at::Tensor& tensor = single(tensors, name);
  const Array a = toReduce(tensor, name);
  const auto [op, reads] = toOp(opts.reduceOp, tensor, name);
  return run<&Communicator::allReduce, &Communicator::allReduceAsync>(
      {Type::ALLREDUCE, name, opts.asyncOp, opts.timeout, tensors, reads}, a.data, a.data, a.count,
      a.type, op);
}

WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& opts) {
  const char* const name = "all_reduce_coalesced";
  std::vector<Array> arrays;
  for (const at::Tensor& tensor : tensors) arrays.push_back(toReduce(tensor, name));
  const Operators ops(opts.reduceOp, tensors, name);
  return runTogether(
      {Type::ALLREDUCE_COALESCED, name, opts.asyncOp, opts.timeout, tensors, ops.reads},
      [&](Communicator& at) {
        for (std::size_t i = 0; i < arrays.size(); ++i) {
          const Array& a = arrays[i];
          at.allReduce(a.data, a.data, a.count, a.type, ops.of[i]);
        }
      });
}

WorkPointer Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const char* const name = "reduce";
  const at::Tensor& tensor = single(tensors, name);
  const Array a = toReduce(tensor, name);
  const auto [op, reads] = toOp(opts.reduceOp, tensor, name);
  void* const output = opts.rootRank == getRank() ? a.data : nullptr;
  return run<&Communicator::reduce, &Communicator::reduceAsync>(
      {Type::REDUCE, name, opts.asyncOp, opts.timeout, tensors, reads}, a.data, output, a.count,
      a.type, op, static_cast<int>(opts.rootRank));
}

WorkPointer Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& opts) {
  const char* const name = "all_gather";
  const at::Tensor& input = single(inputs, name);
  const Array in = toMove(input, name);
  const Tensors& places = list(outputs, name);
  const TensorBlocks out(places, getSize(), name, toMove);
  require(places.front().scalar_type() == input.scalar_type(), name,
          "input and output differ in type");
  requireShapes(places, input, name);
  return run<&Communicator::allGatherv, &Communicator::allGathervAsync>(
      {Type::ALLGATHER, name, opts.asyncOp, opts.timeout, places, inputs}, in.data, in.count,
      out.data(), out.blocks(), in.type);
}

WorkPointer Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::AllgatherOptions& opts) {
  const char* const name = "all_gather_into_tensor";
  const auto [in, out] = scaled(input, output, getSize(), name, toMove, true);
  return run<&Communicator::allGather, &Communicator::allGatherAsync>(
      {Type::_ALLGATHER_BASE, name, opts.asyncOp, opts.timeout, {output}, {input}}, in.data,
      out.data, in.count, in.type);
}

WorkPointer Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& opts) {
  const char* const name = "all_gather_into_tensor_coalesced";
  const auto pairs = scaledAll(inputs, outputs, getSize(), name, toMove, true);
  return runTogether({Type::COALESCED, name, opts.asyncOp, opts.timeout, outputs, inputs},
                     [&](Communicator& at) {
                       for (const auto& [in, out] : pairs)
                         at.allGather(in.data, out.data, in.count, in.type);
                     });
}

WorkPointer Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                            const c10d::GatherOptions& opts) {
  const char* const name = "gather";
  const Array in = toMove(single(inputs, name), name);
  const int root = static_cast<int>(opts.rootRank);
  CallInfo info{Type::GATHER, name, opts.asyncOp, opts.timeout, {}, inputs};
  std::optional<TensorBlocks> out;
  if (root == getRank()) {
    info.outputs = list(outputs, name);
    out.emplace(info.outputs, getSize(), name, toMove);
    require(out->type() == in.type, name, "input and output differ in type");
    requireShapes(info.outputs, inputs.front(), name);
  }
  return run<&Communicator::gatherv, &Communicator::gathervAsync>(
      std::move(info), in.data, in.count, out ? out->data() : nullptr,
      out ? out->blocks() : Blocks{}, in.type, root);
}

WorkPointer Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ScatterOptions& opts) {
  const char* const name = "scatter";
  const Array out = toMove(single(outputs, name), name);
  const int root = static_cast<int>(opts.rootRank);
  CallInfo info{Type::SCATTER, name, opts.asyncOp, opts.timeout, outputs, {}};
  std::optional<TensorBlocks> in;
  if (root == getRank()) {
    info.inputs = list(inputs, name);
    in.emplace(info.inputs, getSize(), name, toMove);
    require(in->type() == out.type, name, "input and output differ in type");
    requireShapes(info.inputs, outputs.front(), name);
  }
  return run<&Communicator::scatterv, &Communicator::scattervAsync>(
      std::move(info), in ? in->data() : nullptr, in ? in->blocks() : Blocks{}, out.data, out.count,
      out.type, root);
}

WorkPointer Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& opts) {
  const char* const name = "reduce_scatter";
  const at::Tensor& output = single(outputs, name);
  const Array out = toReduce(output, name);
  const Tensors& parts = list(inputs, name);
  const TensorBlocks in(parts, getSize(), name, toReduce);
  require(in.blocks().counts[static_cast<std::size_t>(getRank())] == out.count &&
              parts.front().scalar_type() == output.scalar_type(),
          name, "the output must be like this rank's input");
  requireShapes(parts, output, name);
  const auto [op, reads] = toOp(opts.reduceOp, output, name);
  return run<&Communicator::reduceScatterv, &Communicator::reduceScattervAsync>(
      {Type::REDUCE_SCATTER, name, opts.asyncOp, opts.timeout, outputs, joined(parts, reads)},
      in.data(), in.blocks(), out.data, out.type, op);
}

WorkPointer Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& opts) {
  const char* const name = "reduce_scatter_tensor";
  const auto [in, out] = scaled(input, output, getSize(), name, toReduce, false);
  const auto [op, reads] = toOp(opts.reduceOp, output, name);
  return run<&Communicator::reduceScatter, &Communicator::reduceScatterAsync>(
      {Type::_REDUCE_SCATTER_BASE,
       name,
       opts.asyncOp,
       opts.timeout,
       {output},
       joined({input}, reads)},
      in.data, out.data, out.count, out.type, op);
}

WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& opts) {
  const char* const name = "reduce_scatter_tensor_coalesced";
  const auto pairs = scaledAll(inputs, outputs, getSize(), name, toReduce, false);
  const Operators ops(opts.reduceOp, outputs, name);
  return runTogether(
      {Type::COALESCED, name, opts.asyncOp, opts.timeout, outputs, joined(inputs, ops.reads)},
      [&](Communicator& at) {
        for (std::size_t i = 0; i < pairs.size(); ++i)
          at.reduceScatter(pairs[i].input.data, pairs[i].output.data, pairs[i].output.count,
                           pairs[i].output.type, ops.of[i]);
      });
}

WorkPointer Backend::alltoall(Tensors& outputs, Tensors& inputs,
                              const c10d::AllToAllOptions& opts) {
  const char* const name = "all_to_all";
  const TensorBlocks in(inputs, getSize(), name, toMove), out(outputs, getSize(), name, toMove);
  require(inputs.front().scalar_type() == outputs.front().scalar_type(), name,
          "input and output differ in type");
  return run<&Communicator::allToAllv, &Communicator::allToAllvAsync>(
      {Type::ALLTOALL, name, opts.asyncOp, opts.timeout, outputs, inputs}, in.data(), in.blocks(),
      out.data(), out.blocks(), in.type());
}

WorkPointer Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<int64_t>& output_splits,
                                   std::vector<int64_t>& input_splits,
                                   const c10d::AllToAllOptions& opts) {
  const char* const name = "all_to_all_single";
  require(input.scalar_type() == output.scalar_type(), name, "input and output differ in type");
  const Array in = toMove(input, name), out = toMove(output, name);
  const SplitBlocks cut(input, in, input_splits, getSize(), name);
  const SplitBlocks joined(output, out, output_splits, getSize(), name);
  CallInfo info{Type::ALLTOALL_BASE, name, opts.asyncOp, opts.timeout, {output}, {input}};
  if (output_splits.empty() && input_splits.empty()) {
    require(in.count == out.count, name, "input and output differ in size");
    return run<&Communicator::allToAll, &Communicator::allToAllAsync>(
        std::move(info), in.data, out.data, in.count / static_cast<std::size_t>(getSize()),
        in.type);
  }
  return run<&Communicator::allToAllv, &Communicator::allToAllvAsync>(
      std::move(info), in.data, cut.blocks(), out.data, joined.blocks(), in.type);
}

WorkPointer Backend::send(Tensors& tensors, int to, int tag) {
  const char* const name = "send";
  require(tag == 0, name,
          "messages are matched by their order, so a tag other than 0 means nothing");
  const Array a = toMove(single(tensors, name), name);
  return run<&Communicator::send, &Communicator::sendAsync>(
      {.type = Type::SEND, .name = name, .inputs = tensors}, a.data, a.count, a.type, to);
}

WorkPointer Backend::recv(Tensors& tensors, int from, int tag) {
  const char* const name = "recv";
  require(tag == 0, name,
          "messages are matched by their order, so a tag other than 0 means nothing");
  const Array a = toMove(single(tensors, name), name);
  return run<&Communicator::recv, &Communicator::recvAsync>(
      {.type = Type::RECV, .name = name, .outputs = tensors, .source = from}, a.data, a.count,
      a.type, from);
}

WorkPointer Backend::recvAnysource(Tensors& /*tensors*/, int /*tag*/) {
  C10_THROW_ERROR(NotImplementedError,
                  "rondo: recv: from any rank is not possible; name the sender (src)");
}

WorkPointer Backend::barrier(const c10d::BarrierOptions& opts) {
  return run<&Communicator::barrier, &Communicator::barrierAsync>(
      {Type::BARRIER, "barrier", opts.asyncOp, opts.timeout});
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool /*wait_all_ranks*/) {
  // No time at all: only ranks that are there already have come.
  const Milliseconds limit = opts.timeout == kNoTimeout ? Milliseconds(1) : opts.timeout;
  run<&Communicator::barrier, &Communicator::barrierAsync>(
      {Type::BARRIER, "monitored_barrier", false, limit});
}

} // namespace rondo::compat
