// Draws the links of a job: for each way one matrix of bandwidths and one of latencies.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "tools/doctor_job.h"
#include "tools/svg_shapes.h"

namespace rondo::tools {

namespace {

constexpr double kMargin = 24, kHead = 64, kPanelHead = 46, kLabel = 34, kGap = 40, kLegend = 40;
constexpr double kWidest = 420; ///< of a matrix
/// From far worse than the median to better: readable also for people who see no red or no green.
constexpr std::array<const char*, 6> kColours = {"#7f1d1d", "#dc5a3c", "#f6b26b",
                                                 "#fbe3c0", "#cfe3f2", "#8fbfe0"};
/// A value's part of the median at which the next colour begins.
constexpr std::array<double, 5> kBounds = {0.2, 0.4, 0.6, 0.85, 1.25};

std::size_t colourOf(double part) {
  return static_cast<std::size_t>(std::upper_bound(kBounds.begin(), kBounds.end(), part) -
                                  kBounds.begin());
}

/// "123", "4.5": at most three digits.
std::string shortText(double value) {
  char text[16];
  std::snprintf(text, sizeof(text), value < 9.95 ? "%.1f" : "%.0f", value);
  return text;
}

std::string fill(double x, double y, double side, const char* colour, const std::string& tip) {
  return "<rect x=\"" + px(x) + "\" y=\"" + px(y) + "\" width=\"" + px(side) + "\" height=\"" +
         px(side) + "\" fill=\"" + colour + "\">" +
         (tip.empty() ? "" : "<title>" + escaped(tip) + "</title>") + "</rect>\n";
}

struct Measure {
  const char* title;
  double (*of)(const PairFacts&);
  bool more_is_better;
};
constexpr std::array<Measure, 2> kMeasures = {
    Measure{"bandwidth", [](const PairFacts& pair) { return pair.bandwidth; }, true},
    Measure{"latency", [](const PairFacts& pair) { return pair.latency; }, false}};

struct Unit {
  const char* name;
  double size;
};
/// For values about this one.
Unit unitFor(const Measure& measure, double value) {
  if (!measure.more_is_better) return value < 1e-3 ? Unit{"us", 1e-6} : Unit{"ms", 1e-3};
  return value < 1e9 ? Unit{"MB/s", 1e6} : Unit{"GB/s", 1e9};
}

class Matrix {
 public:
  Matrix(const JobFacts& job, const LinkFacts& links, const Measure& measure)
      : job_(job), links_(links), measure_(measure), side_(std::min(36.0, kWidest / ranks())) {
    std::vector<double> values;
    for (const PairFacts& pair : links.pairs) values.push_back(measure.of(pair));
    std::sort(values.begin(), values.end());
    // Of two values in the middle the better one.
    if (!values.empty()) median_ = values[(values.size() - (measure.more_is_better ? 0 : 1)) / 2];
    unit_ = unitFor(measure, median_);
  }

  double size() const { return side_ * ranks(); }
  std::string svg(double x, double y) const {
    std::string text = textSvg(x + kLabel, y + 14, "head", "start",
                               links_.way + ": " + measure_.title + ", median " +
                                   shortText(median_ / unit_.size) + " " + unit_.name);
    const double left = x + kLabel, top = y + kPanelHead;
    const int step = ranks() > 24 ? 8 : 1;
    for (int rank = 0; rank < static_cast<int>(job_.ranks.size()); rank += step) {
      const double middle = (rank + 0.5) * side_;
      text += textSvg(left + middle, top - 5, "note", "middle", std::to_string(rank));
      text += textSvg(left - 5, top + middle + 4, "note", "end", std::to_string(rank));
    }
    text += rectSvg(left, top, size(), size(), "empty");
    for (const PairFacts& pair : links_.pairs) text += cells(pair, left, top);
    return text + borders(left, top);
  }

 private:
  double ranks() const { return static_cast<double>(job_.ranks.size()); }
  std::string cells(const PairFacts& pair, double left, double top) const {
    const double value = measure_.of(pair);
    const double part =
        measure_.more_is_better ? value / median_ : median_ / std::max(value, 1e-12);
    const std::string shown = shortText(value / unit_.size);
    const std::size_t colour = colourOf(part);
    const auto hostOf = [&](int rank) { return job_.ranks[static_cast<std::size_t>(rank)].host; };
    const std::string tip = "ranks " + std::to_string(pair.a) + " (" + hostOf(pair.a) + ") and " +
                            std::to_string(pair.b) + " (" + hostOf(pair.b) + "): " + shown + " " +
                            unit_.name;
    std::string text;
    for (const auto& [row, column] : {std::pair(pair.a, pair.b), std::pair(pair.b, pair.a)}) {
      const double x = left + column * side_, y = top + row * side_;
      text += fill(x, y, side_, kColours[colour], tip);
      if (side_ >= 24)
        text += textSvg(x + side_ / 2, y + side_ / 2 + 4, colour < 2 ? "light" : "cell", "middle",
                        shown);
    }
    return text;
  }
  /// Lines between hosts.
  std::string borders(double left, double top) const {
    std::string text;
    for (std::size_t r = 1; r < job_.ranks.size(); ++r) {
      if (job_.ranks[r].node == job_.ranks[r - 1].node) continue;
      const double at = static_cast<double>(r) * side_;
      text += rectSvg(left + at - 0.5, top, 1, size(), "line");
      text += rectSvg(left, top + at - 0.5, size(), 1, "line");
    }
    return text;
  }

  const JobFacts& job_;
  const LinkFacts& links_;
  const Measure& measure_;
  const double side_;
  double median_ = 1;
  Unit unit_{};
};

constexpr const char* kStyle = R"(<style>
text { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 11px; fill: #1f2937 }
.title { font-size: 18px; font-weight: 600 } .head { font-weight: 600 } .note { fill: #64748b }
.light { fill: #ffffff; font-size: 10px } .cell { font-size: 10px }
.empty { fill: #f1f5f9 } .line { fill: #475569 } .paper { fill: #ffffff }
</style>
)";

std::string legend(double x, double y) {
  constexpr std::array<const char*, 6> kNames = {"below 1/5",  "below 2/5",  "below 3/5",
                                                 "below 0.85", "the median", "above 1.25"};
  std::string text = textSvg(x, y + 10, "note", "start", "times as good as the median:");
  for (std::size_t i = 0; i < kColours.size(); ++i) {
    const double at = x + 175 + 92 * static_cast<double>(i);
    text += fill(at, y, 12, kColours[i], "") + textSvg(at + 17, y + 10, "note", "start", kNames[i]);
  }
  return text;
}

} // namespace

std::string linksSvg(const JobFacts& job) {
  double y = kHead, width = 780;
  std::string body;
  for (const LinkFacts& links : job.links) {
    double x = kMargin, height = 0;
    for (const Measure& measure : kMeasures) {
      const Matrix matrix(job, links, measure);
      body += matrix.svg(x, y);
      x += kLabel + matrix.size() + kGap;
      x = std::max(x, kMargin + 360);
      height = matrix.size();
    }
    width = std::max(width, x - kGap + kMargin);
    y += kPanelHead + height + kGap;
  }
  body += legend(kMargin, y - 8);
  y += kLegend;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + px(width) + "\" height=\"" + px(y) +
         "\" viewBox=\"0 0 " + px(width) + " " + px(y) + "\">\n" + kStyle +
         rectSvg(0, 0, width, y, "paper") +
         textSvg(kMargin, 30, "title", "start",
                 "Links of " + std::to_string(job.ranks.size()) + " ranks") +
         textSvg(kMargin, 48, "note", "start",
                 "The slower direction of each pair. Grey lines divide hosts.") +
         body + "</svg>\n";
}

} // namespace rondo::tools
