// Data-parallel training for libtorch, PyTorch's C++ library: gradients.h on a torch::nn::Module.
// It needs libtorch's headers, but Rondo is not linked to libtorch.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/error.h"
#include "rondo/gradients.h"

namespace rondo {

/// Averages the gradients of a module over the ranks during its backward pass, as Python's
/// DistributedDataParallel does with gradient_as_bucket_view.
///
///   rondo::TorchDataParallel parallel(comm, *model);
///   for (...) {
///     optimizer.zero_grad();
///     parallel.begin();
///     loss_of(model->forward(input), target).backward();
///     parallel.wait();
///     optimizer.step();
///   }
///
/// All ranks construct it with the same module, and get rank 0's parameters and buffers. grad() of
/// a parameter becomes a view of the bucket in which the gradient is sent. A Tensor from grad()
/// becomes invalid at this object's second step that synchronizes, and at its destructor: get it
/// again. Parameters that do not require gradients at construction are ignored. A tensor that the
/// module has under several names counts once, under the first. The module and the communicator
/// must live as long as this object, and the module must not get new parameters. Tensors must be
/// dense, contiguous, in host memory, and of type float, double, half, bfloat16, int, long or bool;
/// otherwise Error(unsupported) names the parameter.
///
/// With GradientOptions::find_unused or static_graph, a parameter that no rank used for its loss
/// has a gradient of zeros. Only one thread at a time may use it. Other errors are those of
/// GradientReducer; those of ready() are thrown by backward().
class TorchDataParallel {
 public:
  TorchDataParallel(Communicator& comm, torch::nn::Module& module,
                    const GradientOptions& options = {})
      : comm_(comm),
        some_unused_(options.find_unused || options.static_graph),
        parameters_(required(module)),
        buffers_(described(distinct(module.named_buffers()))),
        reducer_(comm, described(parameters_), options) {
    broadcastParameters(comm_, buffers_);
    for (std::size_t i = 0; i < parameters_.size(); ++i) hook(i);
  }
  /// The parameters keep their gradients, in memory of their own.
  ~TorchDataParallel() {
    for (const Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
    for (std::size_t i = 0; i < views_.size(); ++i) {
      torch::Tensor& gradient = parameters_[i].second.mutable_grad();
      if (gradient.defined() && gradient.data_ptr() == views_[i].data_ptr())
        gradient = gradient.detach().clone();
    }
  }
  TorchDataParallel(const TorchDataParallel&) = delete;
  TorchDataParallel& operator=(const TorchDataParallel&) = delete;

  /// Call this before the forward pass of each step. With `synchronize` all ranks get rank 0's
  /// buffers (running statistics), and the step's gradients are averaged. Without it gradients are
  /// only accumulated for the next step that synchronizes, as under Python's no_sync().
  void begin(bool synchronize = true) {
    prepare(synchronize);
    const Follow buckets{*this};
    reducer_.begin(synchronize);
  }

  /// Call this after backward(). Returns when all gradients are averages over the ranks.
  void wait() {
    reducer_.wait();
    if (some_unused_) show();
  }

  /// For a rank without further steps, with GradientOptions::uneven_inputs: as
  /// GradientReducer::shadow().
  ///   while (parallel.shadow()) optimizer.step();
  bool shadow() {
    prepare(true);
    {
      const Follow buckets{*this};
      if (!reducer_.shadow()) return false;
    }
    show();
    return true;
  }

  /// For what it tells: buckets(), statistics(), timeline().
  const GradientReducer& reducer() const { return reducer_; }

 private:
  using Named = std::pair<std::string, torch::Tensor>;
  struct Hook {
    /// Lives as long as somebody has it. Its pointer's type depends on the release of torch.
    decltype(torch::autograd::impl::grad_accumulator(torch::Tensor())) accumulator;
    std::uintptr_t key;
  };

  /// Each tensor once.
  static std::vector<Named> distinct(
      const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
    std::vector<Named> all;
    std::set<const void*> seen;
    for (const auto& entry : tensors)
      if (seen.insert(entry.value().unsafeGetTensorImpl()).second)
        all.emplace_back(entry.key(), entry.value());
    return all;
  }

  static std::vector<Named> required(const torch::nn::Module& module) {
    std::vector<Named> all = distinct(module.named_parameters());
    std::erase_if(all, [](const Named& one) { return !one.second.requires_grad(); });
    return all;
  }

  static DataType typeOf(const std::string& name, const torch::Tensor& tensor) {
    const bool plain = tensor.layout() == torch::kStrided && tensor.is_contiguous();
    if (plain && tensor.is_cpu()) {
      switch (tensor.scalar_type()) {
        case torch::kFloat: return DataType::float32;
        case torch::kDouble: return DataType::float64;
        case torch::kHalf: return DataType::float16;
        case torch::kBFloat16: return DataType::bfloat16;
        case torch::kLong: return DataType::int64;
        case torch::kInt: return DataType::int32;
        case torch::kBool: return DataType::uint8;
        default: break;
      }
    }
    throw Error(ErrorCode::unsupported,
                name + ": " + tensor.toString() +
                    (plain ? " is not of a type, or not in memory, that can be sent"
                           : " is not dense and contiguous"));
  }

  static std::vector<Parameter> described(const std::vector<Named>& tensors) {
    std::vector<Parameter> all;
    for (const auto& [name, tensor] : tensors)
      all.push_back({.name = name,
                     .value = tensor.data_ptr(),
                     .shape = {tensor.sizes().begin(), tensor.sizes().end()},
                     .type = typeOf(name, tensor)});
    return all;
  }

  /// Before a step: gives all ranks rank 0's buffers, and sets gradients that do not exist to zero.
  void prepare(bool synchronize) {
    if (synchronize && !buffers_.empty()) {
      Group together;
      for (const Parameter& buffer : buffers_)
        comm_.broadcast(buffer.value, buffer.value, buffer.count(), buffer.type, 0);
      together.end();
    }
    for (std::size_t i = 0; some_unused_ && i < views_.size(); ++i)
      if (!parameters_[i].second.grad().defined()) views_[i].zero_();
  }

  /// The reducer forms its buckets again for the second step, also if an error ends that step.
  struct Follow {
    TorchDataParallel& self;
    ~Follow() {
      for (std::size_t i = 0; i < self.views_.size(); ++i)
        if (self.views_[i].data_ptr() != self.reducer_.gradient(i)) self.adopt(i);
    }
  };

  /// Gives each parameter its averaged gradient, also those that this rank did not use.
  void show() {
    for (std::size_t i = 0; i < views_.size(); ++i)
      parameters_[i].second.mutable_grad() = views_[i];
  }

  /// From now on the parameter's gradient is where the reducer has it, with what is there.
  void adopt(std::size_t i) {
    torch::Tensor& value = parameters_[i].second;
    views_[i] = torch::from_blob(reducer_.gradient(i), value.sizes(), value.options());
    if (value.grad().defined()) value.mutable_grad() = views_[i];
  }

  void hook(std::size_t i) {
    const auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[i].second);
    const auto written = [this, i](const auto& outputs, const auto& /*inputs*/) {
      torch::Tensor& gradient = parameters_[i].second.mutable_grad();
      if (gradient.data_ptr() != views_[i].data_ptr()) {
        views_[i].copy_(gradient);
        gradient = views_[i];
      }
      reducer_.ready(i);
      return outputs;
    };
    views_.emplace_back();
    adopt(i);
    hooks_.push_back(
        {accumulator, accumulator->add_post_hook(
                          std::make_unique<torch::autograd::utils::LambdaPostHook>(written))});
  }

  Communicator& comm_;
  const bool some_unused_; ///< a step may leave out parameters
  std::vector<Named> parameters_;
  std::vector<Parameter> buffers_;
  GradientReducer reducer_;
  std::vector<torch::Tensor> views_; ///< of the reducer's gradients
  std::vector<Hook> hooks_;
};

} // namespace rondo
