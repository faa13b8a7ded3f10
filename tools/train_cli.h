// Parses the options of `rondo train` from a line of text.
#pragma once

#include <string>

#include "tools/train.h"

namespace rondo::tools {

/// Sets in `config` what the line says. Throws Error(invalid_argument) that says what is
/// wrong with it.
void parseTrain(const std::string& line, TrainConfig& config);

} // namespace rondo::tools
