// Whether this processor supports what tests of bfloat16 need.
#pragma once

#include "rondo/error.h"
#include "rondo/train.h"
#include "support/test.h"

namespace rondo::test {

/// Prints a warning if it does not.
inline bool hasBfloat16() {
  try {
    requireTrainDevice("cpu", "bfloat16");
    return true;
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::unsupported);
    WARN("skipped: " << error.what());
    return false;
  }
}

} // namespace rondo::test
