// Implements the group's collectives: converts tensors to arrays and lists of tensors to blocks,
// and makes one Rondo call for each.
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "compat/torch/make.h"
#include "compat/torch/sparse.h"

namespace rondo::compat {

namespace {

/// Returns the only list. Throws ValueError if there is not exactly one.
const Tensors& list(const std::vector<Tensors>& lists, const char* call) {
  require(lists.size() == 1, call, "a rank has one list of tensors in each call");
  return lists.front();
}

/// Refuses a tensor that has as many elements as `like` but another shape: its elements would
/// silently change places. Another number of elements is allowed, because ranks may have blocks of
/// different sizes; the ranks check those when they communicate.
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

/// Converts an input and an output of which one has `size` times as many elements as the other.
Pair scaled(const at::Tensor& input, const at::Tensor& output, int size, const char* call,
            Copies& copies, Array (*as)(const at::Tensor&, const char*), bool output_larger) {
  require(input.scalar_type() == output.scalar_type(), call, "input and output differ in type");
  const Pair pair{as(copies.read(input), call), as(copies.write(output), call)};
  const Array& small = output_larger ? pair.input : pair.output;
  const Array& large = output_larger ? pair.output : pair.input;
  require(large.count == small.count * static_cast<std::size_t>(size), call,
          output_larger ? "the output must have as many elements as all ranks' inputs"
                        : "the input must have as many elements as all ranks' outputs");
  return pair;
}

std::vector<Pair> scaledAll(const Tensors& inputs, const Tensors& outputs, int size,
                            const char* call, Copies& copies,
                            Array (*as)(const at::Tensor&, const char*), bool output_larger) {
  require(inputs.size() == outputs.size(), call, "there must be as many inputs as outputs");
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    pairs.push_back(scaled(inputs[i], outputs[i], size, call, copies, as, output_larger));
  return pairs;
}

Tensors joined(Tensors first, const Tensors& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The operators of several calls that run as one, one operator for each tensor.
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

} // namespace

WorkPointer Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const CallName name("broadcast");
  const at::Tensor& tensor = single(tensors, name);
  const int root = static_cast<int>(opts.rootRank);
  Copies copies(name);
  const Array a = toMove(root == getRank() ? copies.read(tensor) : copies.write(tensor), name);
  return run({Type::BROADCAST, name, opts.asyncOp, opts.timeout, tensors, {}, copies.after()},
             CollectiveCall{.collective = Collective::broadcast,
                            .input = a.data,
                            .output = a.data,
                            .count = a.count,
                            .type = a.type,
                            .root = root});
}

WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const CallName name("all_reduce");
  const at::Tensor& tensor = single(tensors, name);
  if (tensor.defined() && tensor.layout() == at::kSparse) return allreduce_sparse(tensors, opts);
  Copies copies(name);
  const Array a = toReduce(copies.update(tensor), name);
  const auto [op, reads] = toOp(opts.reduceOp, tensor, name);
  return run({Type::ALLREDUCE, name, opts.asyncOp, opts.timeout, tensors, reads, copies.after()},
             CollectiveCall{.collective = Collective::allreduce,
                            .input = a.data,
                            .output = a.data,
                            .count = a.count,
                            .type = a.type,
                            .op = op});
}

WorkPointer Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const CallName name("sparse_all_reduce");
  const at::Tensor& tensor = single(tensors, name);
  require(opts.reduceOp == c10d::ReduceOp::SUM, name, "sparse tensors can only be added (SUM)");
  CallInfo info{Type::_ALLREDUCE_SPARSE, name, false, kNoTimeout, tensors};
  require(!later(info), name, "a sparse tensor's call cannot be coalesced with others");
  const auto add = [&](Communicator& at) {
    const at::Tensor sum = sumSparse(at, tensor, name);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    tensor.copy_(sum);
  };
  return make(std::move(info), add, [](Communicator&) { return Begun{}; }); // not asynchronous
}

WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& opts) {
  const CallName name("all_reduce_coalesced");
  std::vector<Array> arrays;
  Copies copies(name);
  for (const at::Tensor& tensor : tensors) arrays.push_back(toReduce(copies.update(tensor), name));
  const Operators ops(opts.reduceOp, tensors, name);
  return runTogether({Type::ALLREDUCE_COALESCED, name, opts.asyncOp, opts.timeout, tensors,
                      ops.reads, copies.after()},
                     [&](Communicator& at) {
                       for (std::size_t i = 0; i < arrays.size(); ++i) {
                         const Array& a = arrays[i];
                         at.allReduce(a.data, a.data, a.count, a.type, ops.of[i]);
                       }
                     });
}

WorkPointer Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const CallName name("reduce");
  const at::Tensor& tensor = single(tensors, name);
  const bool is_root = opts.rootRank == getRank();
  Copies copies(name);
  const Array a = toReduce(is_root ? copies.update(tensor) : copies.read(tensor), name);
  const auto [op, reads] = toOp(opts.reduceOp, tensor, name);
  void* const output = is_root ? a.data : nullptr;
  return run({Type::REDUCE, name, opts.asyncOp, opts.timeout, tensors, reads, copies.after()},
             CollectiveCall{.collective = Collective::reduce,
                            .input = a.data,
                            .output = output,
                            .count = a.count,
                            .type = a.type,
                            .op = op,
                            .root = static_cast<int>(opts.rootRank)});
}

WorkPointer Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& opts) {
  const CallName name("all_gather");
  const at::Tensor& input = single(inputs, name);
  Copies copies(name);
  const Array in = toMove(copies.read(input), name);
  const Tensors& places = list(outputs, name);
  const TensorBlocks out(copies.write(places), getSize(), name, toMove);
  require(places.front().scalar_type() == input.scalar_type(), name,
          "input and output differ in type");
  requireShapes(places, input, name);
  return run<&Communicator::allGatherv, &Communicator::allGathervAsync>(
      {Type::ALLGATHER, name, opts.asyncOp, opts.timeout, places, inputs, copies.after()}, in.data,
      in.count, out.data(), out.blocks(), in.type);
}

WorkPointer Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& opts) {
  const CallName name("all_gather_coalesced");
  require(outputs.size() == static_cast<std::size_t>(getSize()), name,
          "there must be one list of outputs for each rank");
  Copies copies(name);
  std::vector<Array> in;
  std::vector<TensorBlocks> out;
  Tensors all;
  for (const Tensors& of_rank : outputs) {
    require(of_rank.size() == inputs.size(), name, "there must be as many outputs as inputs");
    all = joined(std::move(all), of_rank);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(toMove(copies.read(inputs[i]), name));
    Tensors places;
    for (const Tensors& of_rank : outputs) {
      require(of_rank[i].scalar_type() == inputs[i].scalar_type(), name,
              "input and output differ in type");
      places.push_back(copies.write(of_rank[i]));
    }
    out.emplace_back(places, getSize(), name, toMove);
  }
  return runTogether(
      {Type::ALLGATHER_COALESCED, name, opts.asyncOp, opts.timeout, all, inputs, copies.after()},
      [&](Communicator& at) {
        for (std::size_t i = 0; i < in.size(); ++i)
          at.allGatherv(in[i].data, in[i].count, out[i].data(), out[i].blocks(), in[i].type);
      });
}

WorkPointer Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::AllgatherOptions& opts) {
  const CallName name("all_gather_into_tensor");
  Copies copies(name);
  const auto [in, out] = scaled(input, output, getSize(), name, copies, toMove, true);
  return run(
      {Type::_ALLGATHER_BASE, name, opts.asyncOp, opts.timeout, {output}, {input}, copies.after()},
      CollectiveCall{.collective = Collective::allgather,
                     .input = in.data,
                     .output = out.data,
                     .count = in.count,
                     .type = in.type});
}

WorkPointer Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& opts) {
  const CallName name("all_gather_into_tensor_coalesced");
  Copies copies(name);
  const auto pairs = scaledAll(inputs, outputs, getSize(), name, copies, toMove, true);
  return runTogether(
      {Type::COALESCED, name, opts.asyncOp, opts.timeout, outputs, inputs, copies.after()},
      [&](Communicator& at) {
        for (const auto& [in, out] : pairs) at.allGather(in.data, out.data, in.count, in.type);
      });
}

WorkPointer Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                            const c10d::GatherOptions& opts) {
  const CallName name("gather");
  Copies copies(name);
  const Array in = toMove(copies.read(single(inputs, name)), name);
  const int root = static_cast<int>(opts.rootRank);
  CallInfo info{Type::GATHER, name, opts.asyncOp, opts.timeout, {}, inputs};
  std::optional<TensorBlocks> out;
  if (root == getRank()) {
    info.outputs = list(outputs, name);
    out.emplace(copies.write(info.outputs), getSize(), name, toMove);
    require(out->type() == in.type, name, "input and output differ in type");
    requireShapes(info.outputs, inputs.front(), name);
  }
  info.after = copies.after();
  return run<&Communicator::gatherv, &Communicator::gathervAsync>(
      std::move(info), in.data, in.count, out ? out->data() : nullptr,
      out ? out->blocks() : Blocks{}, in.type, root);
}

WorkPointer Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ScatterOptions& opts) {
  const CallName name("scatter");
  Copies copies(name);
  const Array out = toMove(copies.write(single(outputs, name)), name);
  const int root = static_cast<int>(opts.rootRank);
  CallInfo info{Type::SCATTER, name, opts.asyncOp, opts.timeout, outputs, {}};
  std::optional<TensorBlocks> in;
  if (root == getRank()) {
    info.inputs = list(inputs, name);
    in.emplace(copies.read(info.inputs), getSize(), name, toMove);
    require(in->type() == out.type, name, "input and output differ in type");
    requireShapes(info.inputs, outputs.front(), name);
  }
  info.after = copies.after();
  return run<&Communicator::scatterv, &Communicator::scattervAsync>(
      std::move(info), in ? in->data() : nullptr, in ? in->blocks() : Blocks{}, out.data, out.count,
      out.type, root);
}

WorkPointer Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& opts) {
  const CallName name("reduce_scatter");
  const at::Tensor& output = single(outputs, name);
  Copies copies(name);
  const Array out = toReduce(copies.write(output), name);
  const Tensors& parts = list(inputs, name);
  const TensorBlocks in(copies.read(parts), getSize(), name, toReduce);
  require(in.blocks().counts[static_cast<std::size_t>(getRank())] == out.count &&
              parts.front().scalar_type() == output.scalar_type(),
          name, "the output must be like this rank's input");
  requireShapes(parts, output, name);
  const auto [op, reads] = toOp(opts.reduceOp, output, name);
  return run<&Communicator::reduceScatterv, &Communicator::reduceScattervAsync>(
      {Type::REDUCE_SCATTER, name, opts.asyncOp, opts.timeout, outputs, joined(parts, reads),
       copies.after()},
      in.data(), in.blocks(), out.data, out.type, op);
}

WorkPointer Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& opts) {
  const CallName name("reduce_scatter_tensor");
  Copies copies(name);
  const auto [in, out] = scaled(input, output, getSize(), name, copies, toReduce, false);
  const auto [op, reads] = toOp(opts.reduceOp, output, name);
  return run({Type::_REDUCE_SCATTER_BASE,
              name,
              opts.asyncOp,
              opts.timeout,
              {output},
              joined({input}, reads),
              copies.after()},
             CollectiveCall{.collective = Collective::reducescatter,
                            .input = in.data,
                            .output = out.data,
                            .count = out.count,
                            .type = out.type,
                            .op = op});
}

WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& opts) {
  const CallName name("reduce_scatter_tensor_coalesced");
  Copies copies(name);
  const auto pairs = scaledAll(inputs, outputs, getSize(), name, copies, toReduce, false);
  const Operators ops(opts.reduceOp, outputs, name);
  return runTogether({Type::COALESCED, name, opts.asyncOp, opts.timeout, outputs,
                      joined(inputs, ops.reads), copies.after()},
                     [&](Communicator& at) {
                       for (std::size_t i = 0; i < pairs.size(); ++i)
                         at.reduceScatter(pairs[i].input.data, pairs[i].output.data,
                                          pairs[i].output.count, pairs[i].output.type, ops.of[i]);
                     });
}

WorkPointer Backend::alltoall(Tensors& outputs, Tensors& inputs,
                              const c10d::AllToAllOptions& opts) {
  const CallName name("all_to_all");
  Copies copies(name);
  const TensorBlocks in(copies.read(inputs), getSize(), name, toMove),
      out(copies.write(outputs), getSize(), name, toMove);
  require(inputs.front().scalar_type() == outputs.front().scalar_type(), name,
          "input and output differ in type");
  return run<&Communicator::allToAllv, &Communicator::allToAllvAsync>(
      {Type::ALLTOALL, name, opts.asyncOp, opts.timeout, outputs, inputs, copies.after()},
      in.data(), in.blocks(), out.data(), out.blocks(), in.type());
}

WorkPointer Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<int64_t>& output_splits,
                                   std::vector<int64_t>& input_splits,
                                   const c10d::AllToAllOptions& opts) {
  const CallName name("all_to_all_single");
  require(input.scalar_type() == output.scalar_type(), name, "input and output differ in type");
  Copies copies(name);
  const Array in = toMove(copies.read(input), name), out = toMove(copies.write(output), name);
  const SplitBlocks cut(input, in, input_splits, getSize(), name);
  const SplitBlocks joined(output, out, output_splits, getSize(), name);
  CallInfo info{Type::ALLTOALL_BASE, name, opts.asyncOp, opts.timeout, {output}, {input},
                copies.after()};
  if (output_splits.empty() && input_splits.empty()) {
    require(in.count == out.count, name, "input and output differ in size");
    return run(std::move(info),
               CollectiveCall{.collective = Collective::alltoall,
                              .input = in.data,
                              .output = out.data,
                              .count = in.count / static_cast<std::size_t>(getSize()),
                              .type = in.type});
  }
  return run<&Communicator::allToAllv, &Communicator::allToAllvAsync>(
      std::move(info), in.data, cut.blocks(), out.data, joined.blocks(), in.type);
}

WorkPointer Backend::barrier(const c10d::BarrierOptions& opts) {
  const CallName name("barrier");
  return run<&Communicator::barrier, &Communicator::barrierAsync>(
      {Type::BARRIER, name, opts.asyncOp, opts.timeout});
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const CallName name("monitored_barrier");
  const std::shared_ptr<Member> member = memberOn(at::kCPU, name);
  const bool failed_before = member->communicator.failure().has_value();
  // Without a timeout only ranks that have already arrived count.
  const std::chrono::milliseconds limit =
      opts.timeout == kNoTimeout ? std::chrono::milliseconds(1) : opts.timeout;
  try {
    run<&Communicator::barrier, &Communicator::barrierAsync>({Type::BARRIER, name, false, limit});
  } catch (const c10::DistBackendError&) {
    const std::optional<Error> failure = member->communicator.failure();
    if (failed_before || !failure) throw;
    const std::chrono::milliseconds printed = // negative: the group's timeout
        opts.timeout < kNoTimeout ? options_->timeout : opts.timeout;
    member->raise(name, withTextOfGloo(*failure, getRank(), printed, wait_all_ranks));
  }
}

} // namespace rondo::compat
