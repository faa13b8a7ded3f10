// Weights and their gradients between the host's memory, where they stay, and the device.
#pragma once

#include "train/layers/cudnn/site.h"
#include "train/layers/weight.h"

namespace rondo::training::cudnn {

/// A copy of a weight's values on the device.
class Upload {
 public:
  Upload(const Site& site, const Weight& weight);

  const float* data() const { return copy_.get(); }
  /// Copies where the values have changed, or where they do not stay.
  void refresh();

 private:
  const Site& site_;
  const Weight& weight_;
  Pinned<float> leaving_; ///< of pageable memory a copy may wait for the stream
  OnDevice<float> copy_;
  std::uint64_t version_ = 0;
};

/// A weight's gradient, made on the device.
class Delivery {
 public:
  Delivery(Site& site, const Weight& weight);

  float* data() const { return made_.get(); }
  /// Behind the work that makes it: has it copied to the host.
  void depart();
  /// Waits for that, and puts it where the weight wants it; gives the weight's number.
  std::size_t arrive() const;

 private:
  Site& site_;
  const Weight& weight_;
  OnDevice<float> made_;
  Pinned<float> landed_; ///< the weight's own memory is not pinned, and elsewhere in every pass
  Event there_;
};

/// A batch's statistic, made on the device.
class Statistic {
 public:
  Statistic(Site& site, const Weight& running);

  float* data() const { return made_.get(); }
  /// Behind the work that makes it: it is on the host when the stream has been waited for.
  void depart();
  /// Then: as Weight::gradient says.
  void arrive() const;

 private:
  Site& site_;
  const Weight& running_;
  OnDevice<float> made_;
  Pinned<float> landed_;
};

} // namespace rondo::training::cudnn
