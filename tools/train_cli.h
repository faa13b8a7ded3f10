// The options of `rondo train`, as they stand on a line.
#pragma once

#include <string>

#include "tools/train.h"

namespace rondo::tools {

/// Takes over what the line says. Throws Error(invalid_argument) that says what is wrong with it.
void parseTrain(const std::string& line, TrainConfig& config);

} // namespace rondo::tools
