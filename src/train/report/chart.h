// Line charts as SVG.
#pragma once

#include <string>
#include <vector>

namespace rondo::training {

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string name;   ///< for the legend
  std::string style;  ///< class of its line
  bool marks = false; ///< a dot at every point, which tells its value
  std::vector<Point> points;
};

struct Chart {
  std::string title;
  std::string across, up; ///< what the axes are, with units
  std::vector<Series> series;
  bool from_zero = false; ///< the upward axis begins at zero
  bool legend = true;     ///< names the series, if there are several
};

/// Round numbers from at or below `low` to at or above `high`, about `count` of them.
std::vector<double> ticks(double low, double high, int count);

/// No more than `most` points, each the average of those that stood in its place; what is not
/// finite is left out.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);

/// A figure element with title, legend and picture; says so where there are no points.
std::string chartText(const Chart& chart);

} // namespace rondo::training
