#include "train/layers/cudnn/weights.h"

#include <algorithm>

#include "train/layers/statistics.h"

namespace rondo::training::cudnn {

Upload::Upload(const Site& site, const Weight& weight)
    : site_(site),
      weight_(weight),
      leaving_(site.pinned<float>(weight.size())),
      copy_(site.onDevice<float>(weight.size())) {}

void Upload::refresh() {
  const Binding& binding = site_.binding();
  if (binding.weights_stay && version_ == *binding.version) return;
  // The pass that read this memory last has completed, and so has its copy to the device.
  std::copy_n(weight_.value, weight_.size(), leaving_.get());
  site_.copy(copy_.get(), static_cast<const float*>(leaving_.get()), weight_.size(),
             cudaMemcpyHostToDevice);
  version_ = *binding.version;
}

Delivery::Delivery(Site& site, const Weight& weight)
    : site_(site),
      weight_(weight),
      made_(site.onDevice<float>(weight.size())),
      landed_(site.pinned<float>(weight.size())),
      there_(Site::event()) {}

void Delivery::depart() {
  site_.copy(landed_.get(), static_cast<const float*>(made_.get()), weight_.size(),
             cudaMemcpyDeviceToHost);
  check(cudaEventRecord(there_.get(), site_.stream()), "cudaEventRecord");
  site_.add(*this);
}

std::size_t Delivery::arrive() const {
  site_.wait(there_.get(), "the gradient of ", weight_.name);
  std::copy_n(landed_.get(), weight_.size(), weight_.gradient);
  return weight_.number;
}

Statistic::Statistic(Site& site, const Weight& running)
    : site_(site),
      running_(running),
      made_(site.onDevice<float>(running.size())),
      landed_(site.pinned<float>(running.size())) {}

void Statistic::depart() {
  site_.copy(landed_.get(), static_cast<const float*>(made_.get()), running_.size(),
             cudaMemcpyDeviceToHost);
  site_.add(*this);
}

void Statistic::arrive() const { takeStatistic(running_, landed_.get()); }

} // namespace rondo::training::cudnn
