// Places points and lines in a frame with logarithmic axes.
#include "tools/tune_plot.h"

#include <algorithm>
#include <cmath>

#include "tools/parse.h"
#include "tools/plan_text.h"
#include "tools/svg_shapes.h"

namespace rondo::tools {

namespace {

constexpr double kWidth = 760, kHeight = 460, kLeft = 64, kTop = 44, kRight = 110, kBottom = 44;
constexpr const char* kColours[] = {"#1f6fb2", "#d1661f", "#2f8f4e", "#8a4fb0", "#b23a48"};
constexpr const char* kStyle = R"(<style>
text { font: 12px sans-serif; fill: #222; }
.title { font-size: 15px; font-weight: bold; }
.frame { fill: #fff; stroke: #888; }
.grid { stroke: #ddd; }
</style>
)";

/// A logarithmic axis that begins and ends at powers of its base.
struct Axis {
  double low = 0, high = 1; ///< logarithms
  double from = 0, to = 1;  ///< pixels
  double base = 2;

  Axis(double least, double most, double b, double begin, double end)
      : from(begin), to(end), base(b) {
    low = std::floor(std::log(least) / std::log(base) + 1e-9);
    high = std::max(std::ceil(std::log(most) / std::log(base) - 1e-9), low + 1);
  }
  double at(double value) const {
    return from + (std::log(value) / std::log(base) - low) / (high - low) * (to - from);
  }
};

std::string lineSvg(double x1, double y1, double x2, double y2) {
  return "<line class=\"grid\" x1=\"" + px(x1) + "\" y1=\"" + px(y1) + "\" x2=\"" + px(x2) +
         "\" y2=\"" + px(y2) + "\"/>\n";
}

std::string gridSvg(const Axis& x, const Axis& y) {
  std::string svg =
      rectSvg(kLeft, kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom, "frame");
  const auto step = std::max(1.0, std::round((x.high - x.low) / 8));
  for (double power = x.low; power <= x.high; power += step) {
    const double bytes = std::pow(2, power);
    svg += lineSvg(x.at(bytes), kTop, x.at(bytes), kHeight - kBottom);
    svg += textSvg(x.at(bytes), kHeight - kBottom + 18, "tick", "middle",
                   formatBytes(static_cast<std::size_t>(bytes)));
  }
  for (double power = y.low; power <= y.high; ++power) {
    const double gbs = std::pow(10, power);
    svg += lineSvg(kLeft, y.at(gbs), kWidth - kRight, y.at(gbs));
    svg += textSvg(kLeft - 8, y.at(gbs) + 4, "tick", "end", formatted("%g", gbs));
  }
  svg +=
      textSvg((kLeft + kWidth - kRight) / 2, kHeight - 8, "label", "middle", "bytes of a message");
  return svg + textSvg(kLeft - 8, kTop - 10, "label", "end", "GB/s");
}

} // namespace

std::string bandwidthSvg(const std::string& title, const std::vector<Bandwidths>& links) {
  double least = 1e300, most = 0, slowest = 1e300, fastest = 0;
  for (const Bandwidths& link : links)
    for (const auto& [bytes, gbs] : link.measured) {
      least = std::min(least, bytes);
      most = std::max(most, bytes);
      slowest = std::min(slowest, gbs);
      fastest = std::max(fastest, gbs);
    }
  const Axis x(least, most, 2, kLeft, kWidth - kRight);
  const Axis y(slowest, fastest, 10, kHeight - kBottom, kTop);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + px(kWidth) +
                    "\" height=\"" + px(kHeight) + "\">\n" + kStyle;
  svg += rectSvg(0, 0, kWidth, kHeight, "frame");
  svg += textSvg(kLeft, 22, "title", "start", title) + gridSvg(x, y);
  std::size_t number = 0;
  for (const Bandwidths& link : links) {
    const std::string colour = kColours[number % std::size(kColours)];
    svg += "<polyline fill=\"none\" stroke=\"" + colour + "\" points=\"";
    for (const auto& [bytes, gbs] : link.fitted) svg += px(x.at(bytes)) + "," + px(y.at(gbs)) + " ";
    svg += "\"/>\n";
    for (const auto& [bytes, gbs] : link.measured)
      svg += "<circle cx=\"" + px(x.at(bytes)) + "\" cy=\"" + px(y.at(gbs)) + "\" r=\"3\" fill=\"" +
             colour + "\"/>\n";
    const double row = kTop + 16 + 18 * static_cast<double>(number++);
    svg += "<circle cx=\"" + px(kWidth - kRight + 14) + "\" cy=\"" + px(row - 4) +
           "\" r=\"4\" fill=\"" + colour + "\"/>\n";
    svg += textSvg(kWidth - kRight + 24, row, "label", "start", link.name);
  }
  return svg + "</svg>\n";
}

} // namespace rondo::tools
