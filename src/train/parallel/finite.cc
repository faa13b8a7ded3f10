#include "train/parallel/finite.h"

#include <cmath>

#include "train/loop/agreement.h"

namespace rondo::training {

void requireFinite(Communicator& comm, double loss, std::int64_t step, const std::string& layer) {
  if (std::isfinite(loss)) return;
  const std::string what = "train: the loss of step " + std::to_string(step) + " is not finite";
  agree(comm, [&]() -> std::string {
    if (layer.empty()) return {};
    throw Error(ErrorCode::aborted, what + "; the first values of that kind come from " + layer);
  });
  throw Error(ErrorCode::aborted, what);
}

} // namespace rondo::training
