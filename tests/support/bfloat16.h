// Whether this processor can do what tests of bfloat16 are about.
#pragma once

#include "rondo/error.h"
#include "rondo/train.h"
#include "support/test.h"

namespace rondo::test {

/// Warns where it cannot.
inline bool hasBfloat16() {
  try {
    requireTrainPrecision("bfloat16");
    return true;
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::unsupported);
    WARN("skipped: " << error.what());
    return false;
  }
}

} // namespace rondo::test
