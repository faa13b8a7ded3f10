// Runs the kernels of the layers on the fake's streams: their source as host code, thread by
// thread.
#include "device/cuda/fake/entry.h"
#include "train/layers/cudnn/body.h"

namespace rondo::training::cudnn {

namespace {

template <class Call>
void launch(const Call& call, cudaStream_t stream) {
  const test::fake::Entry entry("kernel");
  entry.state.put(
      *entry.state.streamOf(stream),
      [call] {
        for (std::size_t i = 0; i < items(call); ++i) runOne(call, i);
      },
      true);
}

} // namespace

void run(const DropoutCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const LossCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const FiniteCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const ChannelSumsCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const JoinCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const AffineCall& call, cudaStream_t stream) { launch(call, stream); }

} // namespace rondo::training::cudnn
