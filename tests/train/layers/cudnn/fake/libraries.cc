#include "train/layers/cudnn/fake/libraries.h"

#include <cmath>
#include <mutex>

#include "device/cuda/fake/entry.h"
#include "train/layers/cudnn/fake/objects.h"

namespace {

struct Books {
  std::mutex mutex;
  std::map<std::string, int> held;
  std::string failing;
  bool pedantic = true;
};
Books& books() {
  static Books all;
  return all;
}

bool overlap(const rondo::test::fake_libraries::Memory& a,
             const rondo::test::fake_libraries::Memory& b) {
  const auto *first = static_cast<const std::byte*>(a.at),
             *second = static_cast<const std::byte*>(b.at);
  return first < second + b.bytes && second < first + a.bytes;
}

} // namespace

namespace rondo::test::fake_libraries {

bool fails(const std::string& function) {
  const std::lock_guard lock(books().mutex);
  return books().failing == function;
}
cublasStatus_t blas(const char* function) {
  return fails(function) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
cudnnStatus_t dnn(const char* function) {
  return fails(function) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}
void note(const std::string& kind, int change) {
  const std::lock_guard lock(books().mutex);
  if ((books().held[kind] += change) == 0) books().held.erase(kind);
}
void notePrecision(bool floats) {
  const std::lock_guard lock(books().mutex);
  books().pedantic = books().pedantic && floats;
}

void put(cudaStream_t stream, std::function<void()> run) {
  const fake::Entry entry("library");
  FakeCuda::State& state = entry.state;
  CUstream_st& on = *state.streamOf(stream);
  state.put(
      on,
      [&state, device = on.device, run = std::move(run)] {
        std::unique_lock lock(state.mutex);
        const auto running = state.running.insert(state.running.end(), {device, {}});
        lock.unlock();
        run();
        lock.lock();
        state.running.erase(running);
        state.changed.notify_all();
      },
      true);
}

void waitForDevice(const char* function) {
  fake::Entry entry(function);
  entry.state.waitForKernels(entry.lock, entry.state.current(), function);
}

bool present(const char* function, const std::vector<Memory>& read,
             const std::vector<Memory>& written) {
  const fake::Entry entry("library");
  const auto complain = [&](const std::string& what) {
    entry.state.complain(std::string(function) + what);
    return false;
  };
  const auto there = [&](const Memory& memory) {
    if (memory.bytes == 0) return true;
    const auto* const last = static_cast<const std::byte*>(memory.at) + memory.bytes - 1;
    const fake::Region* const region = entry.state.regionOf(memory.at);
    return region && region == entry.state.regionOf(last) &&
           region->kind == fake::Region::Kind::plain && region->device == entry.state.current();
  };
  for (const auto* all : {&read, &written})
    for (const Memory& memory : *all)
      if (!there(memory)) return complain(": memory that the device has not");
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto meets = [&](const Memory& other) { return overlap(written[i], other); };
    if (std::any_of(read.begin(), read.end(), meets) ||
        std::any_of(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(i), meets))
      return complain(": what is written overlaps what else it takes");
  }
  return true;
}

} // namespace rondo::test::fake_libraries

namespace rondo::test {

FakeLibraries::FakeLibraries() {
  const std::lock_guard lock(books().mutex);
  books().held.clear();
  books().failing.clear();
  books().pedantic = true;
}
FakeLibraries::~FakeLibraries() { fail(""); }
std::map<std::string, int> FakeLibraries::held() const {
  const std::lock_guard lock(books().mutex);
  return books().held;
}
void FakeLibraries::fail(const std::string& function) {
  const std::lock_guard lock(books().mutex);
  books().failing = function;
}
bool FakeLibraries::pedantic() const {
  const std::lock_guard lock(books().mutex);
  return books().pedantic;
}

} // namespace rondo::test

using namespace rondo::test::fake_libraries;

extern "C" {

const char* CUBLASWINAPI cublasGetStatusString(cublasStatus_t) { return "cuBLAS's words"; }
cublasStatus_t CUBLASWINAPI cublasCreate(cublasHandle_t* handle) {
  if (fails("cublasCreate")) return CUBLAS_STATUS_NOT_INITIALIZED;
  make(handle, "cuBLAS handles");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasDestroy(cublasHandle_t handle) {
  waitForDevice("cublasDestroy");
  destroy(handle, "cuBLAS handles");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return blas("cublasSetStream");
}
cublasStatus_t CUBLASWINAPI cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->pedantic = mode == CUBLAS_PEDANTIC_MATH;
  return blas("cublasSetMathMode");
}
cublasStatus_t CUBLASWINAPI cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                                        cublasOperation_t transb, int m, int n, int k,
                                        const float* alpha, const float* a, int lda, const float* b,
                                        int ldb, const float* beta, float* c, int ldc) {
  const bool ta = transa == CUBLAS_OP_T, tb = transb == CUBLAS_OP_T;
  if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
  notePrecision(handle->pedantic);
  put(handle->stream, [=, by = *alpha, plus = *beta] {
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i) {
        float sum = 0;
        for (int l = 0; l < k; ++l)
          sum += a[ta ? l + i * lda : i + l * lda] * b[tb ? j + l * ldb : l + j * ldb];
        blend(c[i + j * ldc], by, sum, plus);
      }
  });
  return blas("cublasSgemm");
}

const char* CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t) { return "cuDNN's words"; }
cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t* handle) {
  if (fails("cudnnCreate")) return CUDNN_STATUS_EXECUTION_FAILED;
  make(handle, "cuDNN handles");
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t handle) {
  waitForDevice("cudnnDestroy");
  destroy(handle, "cuDNN handles");
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return dnn("cudnnSetStream");
}
FAKE_DESCRIPTOR(Tensor, "tensor descriptors")
cudnnStatus_t CUDNNWINAPI cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t to,
                                                     cudnnTensorFormat_t, cudnnDataType_t, int n,
                                                     int c, int h, int w) {
  *to = {n, c, h, w};
  return to->size() > 0 ? dnn("cudnnSetTensor4dDescriptor") : CUDNN_STATUS_BAD_PARAM;
}
FAKE_DESCRIPTOR(Activation, "activation descriptors")
cudnnStatus_t CUDNNWINAPI cudnnSetActivationDescriptor(cudnnActivationDescriptor_t to,
                                                       cudnnActivationMode_t mode,
                                                       cudnnNanPropagation_t nan, double) {
  to->relu = mode == CUDNN_ACTIVATION_RELU && nan == CUDNN_PROPAGATE_NAN;
  return to->relu ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t CUDNNWINAPI cudnnAddTensor(cudnnHandle_t handle, const void* alpha,
                                         const cudnnTensorDescriptor_t a_as, const void* a,
                                         const void* beta, const cudnnTensorDescriptor_t c_as,
                                         void* c) {
  if (!a_as->isPerChannel(c_as->c) ||
      !present(__func__, {floats(a, a_as->size())}, {floats(c, c_as->size())}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream,
      [=, from = in(a), to = out(c), as = *c_as, by = scalar(alpha), plus = scalar(beta)] {
        for (int i = 0; i < as.size(); ++i) blend(to[i], by, from[i / as.places() % as.c], plus);
      });
  return dnn("cudnnAddTensor");
}
cudnnStatus_t CUDNNWINAPI cudnnActivationForward(cudnnHandle_t handle,
                                                 cudnnActivationDescriptor_t activation,
                                                 const void* alpha,
                                                 const cudnnTensorDescriptor_t x_as, const void* x,
                                                 const void* beta,
                                                 const cudnnTensorDescriptor_t y_as, void* y) {
  if (!activation->relu || *x_as != *y_as ||
      !present(__func__, {floats(x, x_as->size())}, {floats(y, y_as->size())}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream,
      [from = in(x), to = out(y), size = x_as->size(), by = scalar(alpha), plus = scalar(beta)] {
        for (int i = 0; i < size; ++i)
          blend(to[i], by, from[i] > 0 || std::isnan(from[i]) ? from[i] : 0, plus);
      });
  return dnn("cudnnActivationForward");
}
cudnnStatus_t CUDNNWINAPI cudnnActivationBackward(
    cudnnHandle_t handle, cudnnActivationDescriptor_t activation, const void* alpha,
    const cudnnTensorDescriptor_t y_as, const void* y, const cudnnTensorDescriptor_t dy_as,
    const void* dy, const cudnnTensorDescriptor_t x_as, const void* x, const void* beta,
    const cudnnTensorDescriptor_t dx_as, void* dx) {
  const int size = y_as->size();
  if (!activation->relu || *dy_as != *y_as || *x_as != *y_as || *dx_as != *y_as ||
      !present(__func__, {floats(y, size), floats(dy, size), floats(x, size)}, {floats(dx, size)}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream,
      [from = in(x), given = in(dy), to = out(dx), size, by = scalar(alpha), plus = scalar(beta)] {
        for (int i = 0; i < size; ++i) blend(to[i], by, from[i] > 0 ? given[i] : 0, plus);
      });
  return dnn("cudnnActivationBackward");
}
cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                                       const cudnnTensorDescriptor_t dy_as,
                                                       const void* dy, const void* beta,
                                                       const cudnnTensorDescriptor_t db_as,
                                                       void* db) {
  if (!db_as->isPerChannel(dy_as->c) ||
      !present(__func__, {floats(dy, dy_as->size())}, {floats(db, db_as->size())}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream,
      [from = in(dy), to = out(db), as = *dy_as, by = scalar(alpha), plus = scalar(beta)] {
        for (int c = 0; c < as.c; ++c) {
          float sum = 0;
          for (int n = 0; n < as.n; ++n)
            for (int p = 0; p < as.places(); ++p) sum += from[(n * as.c + c) * as.places() + p];
          blend(to[c], by, sum, plus);
        }
      });
  return dnn("cudnnConvolutionBackwardBias");
}

} // extern "C"
