#include "train/layers/cudnn/module.h"

#include "train/layers/cudnn/handles.h"

namespace rondo::training::cudnn {

namespace {

int devices(std::string& why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaGetLastError(); // clears the error, which the next call's check would return again
  why = status == cudaSuccess
            ? "there is no GPU"
            : std::string("no GPU can be used (") + cudaGetErrorString(status) + ")";
  return 0;
}

} // namespace

} // namespace rondo::training::cudnn

extern "C" __attribute__((visibility("default"))) const rondo::training::cudnn::Module*
rondo_train_cudnn_2() {
  using namespace rondo::training::cudnn;
  static constexpr Module kModule{devices, makeProgram};
  return &kModule;
}
