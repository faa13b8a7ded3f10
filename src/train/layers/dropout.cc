// Checks the rate of a dropout layer.
#include "rondo/error.h"
#include "train/layers/values.h"

namespace rondo::training {

SampleShape Dropout::output(const SampleShape& in) const {
  if (!(rate >= 0 && rate < 1)) {
    throw Error(ErrorCode::invalid_argument,
                "dropout's rate is " + std::to_string(rate) + ", must be at least 0 and below 1");
  }
  return in;
}

} // namespace rondo::training
