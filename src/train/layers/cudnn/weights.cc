#include "train/layers/cudnn/weights.h"

#include <algorithm>

namespace rondo::training::cudnn {

Upload::Upload(const Site& site, const Weight& weight)
    : site_(site), weight_(weight), copy_(site.onDevice<float>(weight.size())) {}

void Upload::refresh() {
  const Binding& binding = site_.binding();
  if (binding.weights_stay && version_ == *binding.version) return;
  site_.copy(copy_.get(), static_cast<const float*>(weight_.value), weight_.size(),
             cudaMemcpyHostToDevice);
  // The values may be gone with the next layer.
  if (!binding.weights_stay) site_.wait();
  version_ = *binding.version;
}

Delivery::Delivery(Site& site, const Weight& weight)
    : site_(site),
      weight_(weight),
      made_(site.onDevice<float>(weight.size())),
      landed_(site.pinned<float>(weight.size())) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  there_.reset(event);
}

void Delivery::depart() {
  site_.copy(landed_.get(), static_cast<const float*>(made_.get()), weight_.size(),
             cudaMemcpyDeviceToHost);
  check(cudaEventRecord(there_.get(), site_.stream()), "cudaEventRecord");
  site_.add(*this);
}

std::size_t Delivery::arrive() const {
  check(cudaEventSynchronize(there_.get()), "cudaEventSynchronize");
  std::copy_n(landed_.get(), weight_.size(), weight_.gradient);
  return weight_.number;
}

} // namespace rondo::training::cudnn
