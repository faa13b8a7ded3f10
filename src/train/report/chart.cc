// Draws axes with round numbers, and lines. A line with too many points is drawn through averages.
#include "train/report/chart.h"

#include <algorithm>
#include <cmath>

#include "train/report/html.h"

namespace rondo::training {

namespace {

constexpr double kWidth = 520, kHeight = 270;
constexpr double kLeft = 64, kRight = 14, kTop = 12, kBottom = 42;
constexpr std::size_t kMostPoints = 300;

/// A range of values on an axis, and its range of pixels.
struct Scale {
  double low, high, from, to;
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

/// Ticks for all values. The axis begins and ends with a tick.
std::vector<double> rowTicks(const std::vector<double>& values, bool from_zero) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return ticks(from_zero ? std::min(0.0, *low) : *low, *high, 5);
}

/// Steps and epochs are integers, so ticks between two of them are removed.
std::vector<double> columnTicks(const Scale& x) {
  std::vector<double> columns = ticks(x.low, x.high, 6);
  std::erase_if(columns, [&](double column) {
    return column < x.low || column > x.high || std::abs(column - std::round(column)) > 1e-6;
  });
  return columns;
}

std::string path(const Series& series, const Scale& x, const Scale& y) {
  std::string text = "<polyline class=\"" + series.style + "\" points=\"";
  for (const Point& point : series.points)
    text += fixedText(x.at(point.x), 1) + "," + fixedText(y.at(point.y), 1) + " ";
  return text + "\"/>\n";
}

std::string marks(const Series& series, const Scale& x, const Scale& y) {
  std::string text;
  for (const Point& point : series.points)
    text += "<circle class=\"" + series.style + "\" r=\"3.5\" cx=\"" + fixedText(x.at(point.x), 1) +
            "\" cy=\"" + fixedText(y.at(point.y), 1) + "\"><title>" + htmlText(series.name) + ", " +
            numberText(point.x) + ": " + fixedText(point.y, 4) + "</title></circle>\n";
  return text;
}

std::string legend(const std::vector<Series>& all) {
  if (all.size() < 2) return "";
  std::string text = "<span class=\"legend\">";
  for (const Series& series : all)
    text += "<span><i class=\"" + series.style + "\"></i>" + htmlText(series.name) + "</span>";
  return text + "</span>";
}

std::string picture(const Chart& chart, const std::vector<Series>& all) {
  std::vector<double> across, up;
  for (const Series& series : all)
    for (const Point& point : series.points) {
      across.push_back(point.x);
      up.push_back(point.y);
    }
  if (across.empty()) return "<p class=\"none\">Nothing was recorded.</p>\n";
  const auto rows = rowTicks(up, chart.from_zero);
  const auto [first, last] = std::minmax_element(across.begin(), across.end());
  // The picture ends at the last point. A single point is drawn in the middle.
  const double spread = *first == *last ? 0.5 : 0;
  const Scale x{*first - spread, *last + spread, kLeft, kWidth - kRight};
  const Scale y{rows.front(), rows.back(), kHeight - kBottom, kTop};
  std::string text = "<svg viewBox=\"0 0 " + fixedText(kWidth, 0) + " " + fixedText(kHeight, 0) +
                     "\" role=\"img\" aria-label=\"" + htmlText(chart.title) + "\">\n";
  for (double row : rows) {
    text += lineText(kLeft, y.at(row), kWidth - kRight, y.at(row), "grid");
    text += labelText(kLeft - 7, y.at(row) + 4, "end", numberText(row));
  }
  for (double column : columnTicks(x))
    text += labelText(x.at(column), kHeight - kBottom + 18, "middle", numberText(column));
  text += labelText((kLeft + kWidth - kRight) / 2, kHeight - 6, "middle", chart.across, "axis");
  for (const Series& series : all) {
    text += path(series, x, y);
    // A line needs two points, so a single point gets a mark.
    if (series.marks || series.points.size() == 1) text += marks(series, x, y);
  }
  return text + "</svg>\n";
}

} // namespace

std::vector<double> ticks(double low, double high, int count) {
  if (!(high > low)) {
    const double around = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= around;
    high += around;
  }
  const double rough = (high - low) / count;
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * magnitude;
  for (const double factor : {1, 2, 5})
    if (factor * magnitude >= rough * (1 - 1e-9)) {
      step = factor * magnitude;
      break;
    }
  std::vector<double> result;
  const auto begin = static_cast<std::int64_t>(std::floor(low / step + 1e-9));
  const auto end = static_cast<std::int64_t>(std::ceil(high / step - 1e-9));
  for (std::int64_t i = begin; i <= end; ++i) result.push_back(static_cast<double>(i) * step);
  return result;
}

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  std::vector<Point> finite;
  std::copy_if(points.begin(), points.end(), std::back_inserter(finite),
               [](const Point& p) { return std::isfinite(p.x) && std::isfinite(p.y); });
  if (finite.size() <= most) return finite;
  std::vector<Point> result(most);
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t begin = finite.size() * i / most, end = finite.size() * (i + 1) / most;
    for (std::size_t p = begin; p < end; ++p) {
      result[i].x += finite[p].x / static_cast<double>(end - begin);
      result[i].y += finite[p].y / static_cast<double>(end - begin);
    }
  }
  return result;
}

std::string chartText(const Chart& chart) {
  std::vector<Series> all = chart.series;
  for (Series& series : all) series.points = thinned(series.points, kMostPoints);
  return "<figure>\n<figcaption><b>" + htmlText(chart.title) + "</b> <small>" + htmlText(chart.up) +
         "</small>" + (chart.legend ? legend(all) : "") + "</figcaption>\n" + picture(chart, all) +
         "</figure>\n";
}

} // namespace rondo::training
