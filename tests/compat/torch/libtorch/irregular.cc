// Checks gradients of models whose ranks use different parameters, or have different numbers of
// steps, and of tensors with two names: rondo run -p 2 -- irregular
#include <rondo/rondo.h>
#include <rondo/torch.h>
#include <torch/torch.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int kCount = 1000;

int failed = 0;

void check(bool good, const std::string& what) {
  if (good) return;
  std::printf("wrong: %s\n", what.c_str());
  failed = 1;
}

/// The gradient of a parameter in the loss (parameter * factor).sum() is `factor`.
struct Weights : torch::nn::Module {
  Weights() {
    for (const char* name : {"a", "b", "c"})
      all.push_back(register_parameter(name, torch::ones({kCount})));
  }
  std::vector<torch::Tensor> all;
};

bool gradientIs(const torch::Tensor& parameter, double value) {
  return parameter.grad().defined() &&
         torch::allclose(parameter.grad(), torch::full({kCount}, value));
}

rondo::GradientOptions oneBucketEach() {
  rondo::GradientOptions options;
  options.bucket_bytes = {0};
  return options;
}

/// Rank 0 uses a and b, the others only a. No rank uses c.
void unused(rondo::Communicator& comm, bool find_unused, bool static_graph) {
  Weights model;
  rondo::GradientOptions options = oneBucketEach();
  options.find_unused = find_unused;
  options.static_graph = static_graph;
  rondo::TorchDataParallel parallel(comm, model, options);
  for (int step = 1; step <= 4; ++step) {
    model.zero_grad();
    parallel.begin();
    auto loss = (model.all[0] * step).sum();
    if (comm.rank() == 0) loss = loss + (model.all[1] * step).sum();
    loss.backward();
    parallel.wait();
    const std::string what = "step " + std::to_string(step) + ", find_unused " +
                             std::to_string(find_unused) + ", static_graph " +
                             std::to_string(static_graph) + ", parameter ";
    check(gradientIs(model.all[0], step), what + "a");
    check(gradientIs(model.all[1], 1.0 * step / comm.size()), what + "b");
    check(gradientIs(model.all[2], 0), what + "c");
  }
}

void twoNames(rondo::Communicator& comm) {
  Weights model;
  model.register_parameter("also_b", model.all[1]);
  rondo::TorchDataParallel parallel(comm, model, oneBucketEach());
  check(parallel.reducer().buckets().size() == 3, "a tensor with two names is in two buckets");
  for (int step = 1; step <= 4; ++step) {
    model.zero_grad();
    parallel.begin();
    auto loss = (model.all[1] * (comm.rank() + 1)).sum();
    for (const auto& weights : model.parameters()) loss = loss + (weights * step).sum();
    loss.backward();
    parallel.wait();
    const std::string what = "two names, step " + std::to_string(step) + ", parameter ";
    check(gradientIs(model.all[0], step), what + "a");
    check(gradientIs(model.all[1], 2 * step + 0.5 * (comm.size() + 1)), what + "b");
  }
}

/// Rank r has r + 1 steps.
void uneven(rondo::Communicator& comm, bool find_unused) {
  torch::manual_seed(comm.rank());
  torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::ReLU(),
                              torch::nn::Linear(8, 2));
  rondo::GradientOptions options = oneBucketEach();
  options.find_unused = find_unused;
  options.uneven_inputs = true;
  rondo::TorchDataParallel parallel(comm, *model, options);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  int steps = 0;
  for (; steps <= comm.rank(); ++steps) {
    optimizer.zero_grad();
    parallel.begin();
    model->forward(torch::rand({6, 4})).pow(2).sum().backward();
    parallel.wait();
    optimizer.step();
  }
  for (optimizer.zero_grad(); parallel.shadow(); ++steps) {
    optimizer.step();
    optimizer.zero_grad();
  }
  check(steps == comm.size(), "rank saw " + std::to_string(steps) + " steps");
  for (const auto& weights : model->parameters()) {
    torch::Tensor first = weights.detach().clone();
    comm.broadcast(first.data_ptr<float>(), first.data_ptr<float>(),
                   static_cast<std::size_t>(first.numel()), rondo::DataType::float32, 0);
    check(torch::equal(first, weights), "after unequal numbers of steps the models differ");
  }
}

} // namespace

int main() {
  auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
  torch::set_num_threads(1);
  unused(comm, true, false);
  unused(comm, false, true);
  unused(comm, true, true);
  twoNames(comm);
  uneven(comm, false);
  uneven(comm, true);
  return failed;
}
