// The plan kernel's host instances for integers.
#include "support/host_block.h"

namespace rondo::test {

LaneFunction integerLane(DataType type, ReduceOp::Kind op) {
  switch (type) {
    case DataType::int8: return laneOf<DataType::int8>(op);
    case DataType::uint8: return laneOf<DataType::uint8>(op);
    case DataType::int16: return laneOf<DataType::int16>(op);
    case DataType::uint16: return laneOf<DataType::uint16>(op);
    case DataType::int32: return laneOf<DataType::int32>(op);
    case DataType::uint32: return laneOf<DataType::uint32>(op);
    case DataType::int64: return laneOf<DataType::int64>(op);
    case DataType::uint64: return laneOf<DataType::uint64>(op);
    default: return nullptr;
  }
}

} // namespace rondo::test
