// The plan kernel's host instances for floats.
#include "support/host_block.h"

namespace rondo::test {

LaneFunction floatLane(DataType type, ReduceOp::Kind op) {
  switch (type) {
    case DataType::float16: return laneOf<DataType::float16>(op);
    case DataType::bfloat16: return laneOf<DataType::bfloat16>(op);
    case DataType::float8e4m3: return laneOf<DataType::float8e4m3>(op);
    case DataType::float8e5m2: return laneOf<DataType::float8e5m2>(op);
    case DataType::float32: return laneOf<DataType::float32>(op);
    case DataType::float64: return laneOf<DataType::float64>(op);
    default: return nullptr;
  }
}

} // namespace rondo::test
