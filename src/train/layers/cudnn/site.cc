#include "train/layers/cudnn/site.h"

#include "train/layers/cudnn/weights.h"

namespace rondo::training::cudnn {

namespace {

template <class Handle, class Make>
Handle made(Make make, const char* function) {
  typename Handle::pointer handle = nullptr;
  check(make(&handle), function);
  return Handle(handle);
}

} // namespace

Site::Site(const Binding& binding, int device) : binding_(binding), device_(device) {
  use();
  stream_ = made<Stream>(
      [](cudaStream_t* to) { return cudaStreamCreateWithFlags(to, cudaStreamNonBlocking); },
      "cudaStreamCreateWithFlags");
  blas_ = made<Blas>([](cublasHandle_t* to) { return cublasCreate(to); }, "cublasCreate");
  check(cublasSetStream(blas(), stream()), "cublasSetStream");
  // Floats multiplied as floats, not as TF32's 10 bits.
  check(cublasSetMathMode(blas(), CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  dnn_ = made<Dnn>([](cudnnHandle_t* to) { return cudnnCreate(to); }, "cudnnCreate");
  check(cudnnSetStream(dnn(), stream()), "cudnnSetStream");
}

Site::~Site() {
  // What still runs, behind an error, must not lose its memory.
  if (cudaSetDevice(device_) == cudaSuccess) cudaStreamSynchronize(stream());
}

void Site::use() const { check(cudaSetDevice(device_), "cudaSetDevice"); }

void Site::begin() {
  use();
  deliveries_.clear();
}

void Site::wait() const { check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

Tensor Site::tensor(const SampleShape& shape) {
  tensors_.push_back(onDevice<float>(binding_.count * shape.size()));
  return {tensors_.back().get(), shape};
}

Description Site::description(const SampleShape& shape, std::size_t samples) const {
  auto description =
      made<Description>([](cudnnTensorDescriptor_t* to) { return cudnnCreateTensorDescriptor(to); },
                        "cudnnCreateTensorDescriptor");
  const auto dim = [](std::size_t size) { return static_cast<int>(size); };
  check(cudnnSetTensor4dDescriptor(description.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
                                   dim(samples), dim(shape.channels), dim(shape.height),
                                   dim(shape.width)),
        "cudnnSetTensor4dDescriptor");
  return description;
}

void Site::deliver(const Ready& ready) {
  for (const Delivery* delivery : deliveries_) ready(delivery->arrive());
  deliveries_.clear();
}

} // namespace rondo::training::cudnn
