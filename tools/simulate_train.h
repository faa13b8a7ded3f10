// `rondo simulate train`: the command.
#pragma once

#include "tools/command.h"

namespace rondo::tools {

Action addSimulateTrain(CLI::App& simulate);

} // namespace rondo::tools
