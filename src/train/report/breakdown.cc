// Draws the parts of a step from medians, which single disturbed steps do not change.
#include "train/report/breakdown.h"

#include <algorithm>
#include <cmath>

#include "train/report/html.h"

namespace rondo::training {

namespace {

constexpr double kWidth = 1080, kBarHeight = 34;

/// One part of a step, with its time in all steps.
struct Part {
  std::string name, style;
  std::vector<double> values = {};
  double median = 0;
};

std::vector<Part> parts(const std::vector<StepRecord>& steps) {
  std::vector<Part> all = {{"data", "data"},           {"forward", "forward"},
                           {"backward", "backward"},   {"exposed communication", "communication"},
                           {"optimizer", "optimizer"}, {"other", "other"}};
  for (const StepRecord& step : steps) {
    const TrainTimes& t = step.times;
    const double named = t.data + t.forward + t.backward + t.communication + t.optimizer;
    const double values[] = {t.data,          t.forward,   t.backward,
                             t.communication, t.optimizer, std::max(0.0, t.step - named)};
    for (std::size_t i = 0; i < all.size(); ++i) all[i].values.push_back(values[i]);
  }
  for (Part& part : all) part.median = percentile(part.values, 0.5);
  return all;
}

} // namespace

double percentile(std::vector<double> values, double share) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return 0;
  const auto place = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place),
                   values.end());
  return values[place];
}

std::string breakdownText(const std::vector<StepRecord>& steps) {
  const std::vector<Part> all = parts(steps);
  double sum = 0;
  for (const Part& part : all) sum += part.median;
  if (sum <= 0) return "<p class=\"none\">Nothing was recorded.</p>\n";
  std::string bar = "<svg viewBox=\"0 0 " + fixedText(kWidth, 0) + " " + fixedText(kBarHeight, 0) +
                    "\" role=\"img\" aria-label=\"Parts of a step\">\n";
  std::string table =
      "<table class=\"parts\"><tr><th>Part</th><th>Median</th><th>95th percentile</th>"
      "<th>Share</th></tr>\n";
  double x = 0;
  for (const Part& part : all) {
    const double width = part.median / sum * kWidth;
    const std::string share = fixedText(100 * part.median / sum, 1) + " %";
    const std::string median = numberText(part.median) + " ms";
    bar += boxText({x, 0, std::max(0.0, width - 2), kBarHeight}, part.style,
                   part.name + ": " + median + ", " + share);
    if (width > 80) bar += labelText(x + 8, 22, "start", median, "inside");
    table += "<tr><td><i class=\"" + part.style + "\"></i>" + part.name + "</td><td>" + median +
             "</td><td>" + numberText(percentile(part.values, 0.95)) + " ms</td><td>" + share +
             "</td></tr>\n";
    x += width;
  }
  return bar + "</svg>\n" + table + "</table>\n";
}

} // namespace rondo::training
