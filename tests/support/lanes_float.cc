// The plan kernel's host instances for floats.
#include "support/host_block.h"

namespace rondo::test {

LaneFunction floatLane(DataType type, ReduceOp::Kind op) {
  const auto lane = [op](auto constant) { return laneOf<decltype(constant)::value>(op); };
  switch (sizeOf(type)) {
    case 1: return detail::withFloat<1, LaneFunction>(type, lane);
    case 2: return detail::withFloat<2, LaneFunction>(type, lane);
    case 4: return detail::withFloat<4, LaneFunction>(type, lane);
    default: return detail::withFloat<8, LaneFunction>(type, lane);
  }
}

} // namespace rondo::test
