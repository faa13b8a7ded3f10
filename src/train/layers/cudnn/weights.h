// Copies weights from host memory, where they stay, to the device, and gradients back.
#pragma once

#include "train/layers/cudnn/site.h"
#include "train/layers/weight.h"

namespace rondo::training::cudnn {

/// A copy of a weight's values on the device.
class Upload {
 public:
  Upload(const Site& site, const Weight& weight);

  const float* data() const { return copy_.get(); }
  /// Copies the values if they have changed, or if copies must not be kept (Binding::weights_stay).
  void refresh();

 private:
  const Site& site_;
  const Weight& weight_;
  /// Pinned: an asynchronous copy from pageable memory may wait for the stream.
  Pinned<float> leaving_;
  OnDevice<float> copy_;
  std::uint64_t version_ = 0;
};

/// A weight's gradient, computed on the device.
class Delivery {
 public:
  Delivery(Site& site, const Weight& weight);

  float* data() const { return made_.get(); }
  /// Starts the copy to the host, after the queued work that computes the gradient.
  void depart();
  /// Waits for the copy, stores it in Weight::gradient, and returns the weight's number.
  std::size_t arrive() const;

 private:
  Site& site_;
  const Weight& weight_;
  OnDevice<float> made_;
  Pinned<float> landed_; ///< the weight's own memory is not pinned, and may differ in every pass
  Event there_;
};

/// A statistic of a batch, computed on the device.
class Statistic {
 public:
  Statistic(Site& site, const Weight& running);

  float* data() const { return made_.get(); }
  /// Starts the copy to the host, after the queued work that computes it. It has arrived when the
  /// stream has been waited for.
  void depart();
  /// Then: stores it as described at Weight::gradient.
  void arrive() const;

 private:
  Site& site_;
  const Weight& running_;
  OnDevice<float> made_;
  Pinned<float> landed_;
};

} // namespace rondo::training::cudnn
