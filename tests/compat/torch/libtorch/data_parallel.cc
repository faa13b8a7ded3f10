// Trains a CNN on several ranks with libtorch: rondo run -p 2 -- data_parallel
#include <rondo/rondo.h>
#include <rondo/torch.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <vector>

namespace nn = torch::nn;

struct Cnn : nn::Module {
  Cnn() {
    register_module("convolutions", convolutions);
    register_module("linear", linear);
  }
  torch::Tensor forward(torch::Tensor images) {
    return linear->forward(convolutions->forward(images).flatten(1));
  }
  nn::Sequential convolutions{nn::Conv2d(nn::Conv2dOptions(1, 8, 3).padding(1)),
                              nn::BatchNorm2d(8),
                              nn::ReLU(),
                              nn::MaxPool2d(2),
                              nn::Conv2d(nn::Conv2dOptions(8, 16, 3).padding(1)),
                              nn::ReLU(),
                              nn::MaxPool2d(2)};
  nn::Sequential linear{nn::Linear(16 * 4 * 4, 64), nn::ReLU(), nn::Linear(64, 10)};
};

// The same numbers as in the Python program.
torch::Tensor numbers(torch::IntArrayRef shape, double from) {
  const auto count = c10::multiply_integers(shape);
  return (torch::arange(count, torch::kDouble) * 0.7 + from).sin().reshape(shape).to(torch::kFloat);
}

int main() {
  auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
  torch::set_num_threads(1);
  Cnn model;
  {
    torch::NoGradGuard guard;
    for (auto& weights : model.parameters())
      weights.copy_(numbers(weights.sizes(), comm.rank()) * 0.1); // replaced by rank 0's weights
  }
  rondo::GradientOptions options;
  options.bucket_bytes = {4096}; // gives several buckets, although the model is small
  auto parallel = std::make_unique<rondo::TorchDataParallel>(comm, model, options);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));

  for (int step = 0; step < 20; ++step) {
    const int shard = comm.rank() + comm.size() * (step % 2);
    const auto images = numbers({8, 1, 16, 16}, shard);
    const auto labels = (torch::arange(8) + shard) % 10;
    optimizer.zero_grad();
    parallel->begin();
    auto loss = nn::functional::cross_entropy(model.forward(images), labels);
    loss.backward();
    parallel->wait();
    optimizer.step();
    std::printf("%d %d %.9g\n", comm.rank(), step, loss.item<double>());
  }

  // The module outlives the reducer, and keeps its gradients.
  std::vector<torch::Tensor> last;
  for (const auto& weights : model.parameters()) last.push_back(weights.grad().clone());
  parallel.reset();
  for (std::size_t i = 0; i < last.size(); ++i)
    if (!torch::equal(model.parameters()[i].grad(), last[i])) return 1;
}
