// Trains a model without the trainer on several ranks: rondo run -p 2 -- own_model
#include <rondo/rondo.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());

  // The model is y = out * tanh(in * x + bias) with 16 hidden units. It learns sin(3x).
  constexpr std::size_t kHidden = 16;
  std::vector<float> in(kHidden), bias(kHidden), out(kHidden);
  for (std::size_t h = 0; h < kHidden; ++h) {
    in[h] = static_cast<float>(h % 5) - 2.0F;
    bias[h] = static_cast<float>(h % 7) / 3.5F - 1.0F;
    out[h] = static_cast<float>(h % 3) / 4.0F - 0.25F;
  }
  std::vector<float>* const values[] = {&in, &bias, &out};
  rondo::GradientReducer reducer(comm, {{.name = "in", .value = in.data(), .shape = {kHidden}},
                                        {.name = "bias", .value = bias.data(), .shape = {kHidden}},
                                        {.name = "out", .value = out.data(), .shape = {kHidden}}});

  constexpr int kSamples = 64; // in one step, over all ranks
  for (int step = 0; step < 3000; ++step) {
    reducer.begin();
    float* gradients[3];
    for (std::size_t i = 0; i < 3; ++i) {
      gradients[i] = static_cast<float*>(reducer.gradient(i));
      for (std::size_t h = 0; h < kHidden; ++h) gradients[i][h] = 0;
    }
    float loss = 0;
    // 1 / samples of this rank, for its share of the mean.
    const float share = static_cast<float>(comm.size()) / kSamples;
    for (int sample = comm.rank(); sample < kSamples; sample += comm.size()) {
      const float x = 2.0F * static_cast<float>(sample) / kSamples - 1.0F;
      float tanhs[kHidden], y = 0;
      for (std::size_t h = 0; h < kHidden; ++h)
        y += out[h] * (tanhs[h] = std::tanh(in[h] * x + bias[h]));
      const float error = y - std::sin(3 * x);
      loss += error * error * share;
      for (std::size_t h = 0; h < kHidden; ++h) {
        const float back = 2 * error * share * out[h] * (1 - tanhs[h] * tanhs[h]);
        gradients[0][h] += back * x;
        gradients[1][h] += back;
        gradients[2][h] += 2 * error * share * tanhs[h];
      }
    }
    for (std::size_t i = 3; i-- > 0;) reducer.ready(i); // in the order of a backward pass
    reducer.wait();
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t h = 0; h < kHidden; ++h) (*values[i])[h] -= 0.05F * gradients[i][h];
    comm.allReduce(&loss, &loss, 1, rondo::DataType::float32, rondo::ReduceOp::avg);
    if (comm.rank() == 0 && (step + 1) % 1000 == 0)
      std::printf("step %d: loss %.6f\n", step + 1, static_cast<double>(loss));
  }
}
