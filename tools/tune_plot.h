// Draws the bandwidth of links by message size, B = f(n).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rondo::tools {

/// One link: measured points, and the fitted function at many sizes. (bytes, GB/s)
struct Bandwidths {
  std::string name;
  std::vector<std::pair<double, double>> measured, fitted;
};

/// SVG with logarithmic axes. At least one link must have points.
std::string bandwidthSvg(const std::string& title, const std::vector<Bandwidths>& links);

} // namespace rondo::tools
