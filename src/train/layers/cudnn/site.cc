#include "train/layers/cudnn/site.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "train/layers/cudnn/weights.h"

namespace rondo::training::cudnn {

namespace {

// Small layers take tens of microseconds, so a wait spins first. A longer wait sleeps, to leave the
// processor to other threads.
constexpr std::chrono::microseconds kSpinning{200}, kNap{50};

/// The sites of this process whose work did not complete in time.
struct Overdue {
  std::mutex mutex;
  std::vector<const Site*> sites;

  static Overdue& get() {
    // Never freed, because sites that are kept outlive static objects.
    static auto* const one = new Overdue;
    return *one;
  }
};

} // namespace

Site::Site(const Binding& binding, const Gpu& gpu) : binding_(binding), gpu_(gpu) {
  use();
  stream_ = made<Stream>(
      [](cudaStream_t* to) { return cudaStreamCreateWithFlags(to, cudaStreamNonBlocking); },
      "cudaStreamCreateWithFlags");
  reached_ = event();
  blas_ = made<Blas>(cublasCreate, "cublasCreate");
  check(cublasSetStream(blas(), stream()), "cublasSetStream");
  // Multiplies in full float32, not in TF32 with its 10 bits of mantissa.
  check(cublasSetMathMode(blas(), CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  dnn_ = made<Dnn>(cudnnCreate, "cudnnCreate");
  check(cudnnSetStream(dnn(), stream()), "cudnnSetStream");
}

Site::~Site() {
  Overdue& overdue = Overdue::get();
  const std::lock_guard lock(overdue.mutex);
  std::erase(overdue.sites, this);
}

void Site::use() const { check(cudaSetDevice(gpu_.number), "cudaSetDevice"); }

void Site::begin() {
  use();
  if (under_way_) wait("the work of the previous pass");
  under_way_ = true;
  deliveries_.clear();
  statistics_.clear();
}

Event Site::event() {
  return made<Event>(
      [](cudaEvent_t* to) { return cudaEventCreateWithFlags(to, cudaEventDisableTiming); },
      "cudaEventCreateWithFlags");
}

void Site::wait(std::string_view what, std::string_view whose) const {
  check(cudaEventRecord(reached_.get(), stream()), "cudaEventRecord");
  wait(reached_.get(), what, whose);
}

void Site::wait(cudaEvent_t event, std::string_view what, std::string_view whose) const {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t status = cudaEventQuery(event);
    if (status != cudaErrorNotReady) return check(status, "cudaEventQuery");
    cudaGetLastError(); // clears cudaErrorNotReady
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > gpu_.timeout) {
      noteOverdue();
      throw Error(ErrorCode::timeout, "GPU " + std::to_string(gpu_.number) + " did not complete " +
                                          std::string(what) + std::string(whose) + " within " +
                                          std::to_string(gpu_.timeout.count()) + " ms");
    }
    if (waited < kSpinning) std::this_thread::yield();
    else std::this_thread::sleep_for(kNap);
  }
}

void Site::noteOverdue() const {
  Overdue& overdue = Overdue::get();
  const std::lock_guard lock(overdue.mutex);
  if (std::find(overdue.sites.begin(), overdue.sites.end(), this) == overdue.sites.end())
    overdue.sites.push_back(this);
}

bool Site::stuck() const {
  Overdue& overdue = Overdue::get();
  const std::lock_guard lock(overdue.mutex);
  // Removes sites whose work has completed meanwhile, or failed: after an error no work is running.
  std::erase_if(overdue.sites, [this](const Site* site) {
    return site->gpu_.number == gpu_.number && cudaStreamQuery(site->stream()) != cudaErrorNotReady;
  });
  cudaGetLastError(); // clears cudaErrorNotReady
  return std::any_of(overdue.sites.begin(), overdue.sites.end(),
                     [this](const Site* site) { return site->gpu_.number == gpu_.number; });
}

Tensor Site::tensor(const SampleShape& shape) {
  tensors_.push_back(onDevice<float>(binding_.count * shape.size()));
  return {tensors_.back().get(), shape};
}

Description Site::description(const SampleShape& shape, std::size_t samples) const {
  auto description = made<Description>(cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
  check(cudnnSetTensor4dDescriptor(description.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
                                   dim(samples), dim(shape.channels), dim(shape.height),
                                   dim(shape.width)),
        "cudnnSetTensor4dDescriptor");
  return description;
}

void Site::reserve(std::size_t bytes) {
  if (bytes <= workspace_bytes_) return;
  workspace_.reset();
  workspace_bytes_ = 0; // correct also if the next allocation throws
  workspace_ = onDevice<std::byte>(bytes);
  workspace_bytes_ = bytes;
}

void Site::deliver(const GradientReady& ready) {
  for (const Delivery* delivery : deliveries_) ready(delivery->arrive());
  deliveries_.clear();
}

void Site::end() {
  for (const Statistic* statistic : statistics_) statistic->arrive();
  statistics_.clear();
  under_way_ = false;
}

} // namespace rondo::training::cudnn
