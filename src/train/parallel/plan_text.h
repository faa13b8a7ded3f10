// What the texts of the strategies' plans are put together from.
#pragma once

#include <string>

#include "train/parallel/mesh.h"

namespace rondo::training {

/// As printf().
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

/// "mesh data=2,tensor=2: ranks 0 1; ranks 2 3": the mesh, and who are neighbours along the axis.
std::string meshText(const Mesh& mesh, Axis axis);

} // namespace rondo::training
