// Reads plans that other programs made.
#pragma once

#include <string>

#include "plan/msccl.h"

namespace rondo::tools {

/// Throws as plan::parseMsccl() does, and Error(system) for a file that cannot be read.
plan::ImportedPlans readMscclFile(const std::string& path);

} // namespace rondo::tools
