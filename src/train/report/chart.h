// Draws line charts as SVG.
#pragma once

#include <string>
#include <vector>

namespace rondo::training {

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string name;  ///< for the legend
  std::string style; ///< CSS class of its line
  /// Draws a dot at every point, which shows its value as a tooltip.
  bool marks = false;
  std::vector<Point> points;
};

struct Chart {
  std::string title;
  std::string across, up; ///< labels of the axes, with units
  std::vector<Series> series;
  bool from_zero = false; ///< the vertical axis begins at zero
  bool legend = true;     ///< shows the names of the series, if there are several
};

/// Returns round numbers from at or below `low` to at or above `high`, about `count` of them.
std::vector<double> ticks(double low, double high, int count);

/// Returns at most `most` points; if there are more finite ones, each result is the average of
/// several neighbours. Points that are not finite are left out.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);

/// Returns a figure element with title, legend and picture. If there are no points, it says so.
std::string chartText(const Chart& chart);

} // namespace rondo::training
