// Places scratch chunks of imported plans. Only for msccl_read.cc.
#pragma once

#include <cstdint>

#include "plan/msccl.h"

namespace rondo::plan {

/// In MSCCL all chunks have the same size. In a plan the chunks of a block may differ by an
/// element, so data must stay at their position in a block. Follows all data through steps and
/// messages, and moves each scratch chunk to the position of what it holds; then each step has one
/// chunk. Changes nothing if all are in place already, or if more than `most` chunks of scratch
/// would be needed; returns false in the latter case.
bool alignScratch(ImportedPlans& imported, std::uint64_t most);

} // namespace rondo::plan
