// Helpers to print the plans of strategies.
#pragma once

#include <string>

#include "train/parallel/mesh.h"

namespace rondo::training {

/// Formats like printf() and returns a string.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

/// "mesh data=2,tensor=2: ranks 0 1; ranks 2 3": the mesh, and the groups of neighbours on the
/// axis.
std::string meshText(const Mesh& mesh, Axis axis);

} // namespace rondo::training
