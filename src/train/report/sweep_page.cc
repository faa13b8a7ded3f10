// Draws the page of a sweep: accuracy of its runs by epoch and by time, and a table.
#include <algorithm>
#include <cmath>
#include <optional>

#include "rondo/train.h"
#include "train/report/chart.h"
#include "train/report/html.h"
#include "train/report/page_style.h"
#include "train/report/text_file.h"

namespace rondo {

namespace training {
namespace {

constexpr std::size_t kColours = 10; // colours of the page's style

std::string styleOf(std::size_t run) { return "run" + std::to_string(run % kColours); }

double best(const TrainSweepRun& run) {
  return run.accuracy.empty() ? 0 : *std::max_element(run.accuracy.begin(), run.accuracy.end());
}

/// The accuracy that runs are compared at: the lowest of the runs' best accuracies that is at most
/// two percentage points below the best of all, so that all useful runs reach it.
double goalOf(const std::vector<TrainSweepRun>& runs) {
  constexpr double kNear = 0.02;
  double most = 0;
  for (const TrainSweepRun& run : runs) most = std::max(most, best(run));
  double goal = most;
  for (const TrainSweepRun& run : runs)
    if (best(run) >= most - kNear) goal = std::min(goal, best(run));
  return goal;
}

/// Epochs and seconds until the run first reaches that accuracy, interpolated between epochs. No
/// value if it never does.
std::optional<Point> wayTo(const TrainSweepRun& run, double goal) {
  double epoch = 0, seconds = 0, accuracy = 0;
  for (std::size_t i = 0; i < run.accuracy.size(); ++i) {
    const double next = run.accuracy[i];
    if (next >= goal) {
      const double part = i == 0 ? 1 : (goal - accuracy) / (next - accuracy);
      return Point{epoch + part, seconds + part * (run.seconds[i] - seconds)};
    }
    epoch += 1;
    seconds = run.seconds[i];
    accuracy = next;
  }
  return std::nullopt;
}

/// Points that are more than this below the best accuracy are not drawn, so that runs can be
/// distinguished.
constexpr double kShown = 0.15;

Chart accuracyChart(const std::vector<TrainSweepRun>& runs, bool by_time) {
  double least = 0;
  for (const TrainSweepRun& run : runs) least = std::max(least, best(run) - kShown);
  Chart chart{.title = by_time ? "Accuracy against time" : "Accuracy against epochs",
              .across = by_time ? "seconds of training" : "epochs",
              .up = "percent of the test samples; above " + fixedText(100 * least, 0),
              .series = {},
              .legend = false};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    Series& line = chart.series.emplace_back(
        Series{.name = runs[r].name, .style = styleOf(r), .marks = true, .points = {}});
    for (std::size_t i = 0; i < runs[r].accuracy.size(); ++i)
      if (runs[r].accuracy[i] >= least)
        line.points.push_back(
            {by_time ? runs[r].seconds[i] : static_cast<double>(i + 1), 100 * runs[r].accuracy[i]});
  }
  return chart;
}

/// The noise scale of the runs that estimated it, on a logarithmic axis.
Chart noiseChart(const std::vector<TrainSweepRun>& runs) {
  Chart chart{.title = "Gradient noise scale",
              .across = "epochs",
              .up = "log2 of samples",
              .series = {},
              .legend = false};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    Series& line = chart.series.emplace_back(
        Series{.name = runs[r].name, .style = styleOf(r), .marks = true, .points = {}});
    for (std::size_t i = 0; i < runs[r].noise_scale.size(); ++i)
      line.points.push_back({static_cast<double>(i + 1), std::log2(runs[r].noise_scale[i])});
  }
  return chart;
}

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }

std::string table(const std::vector<TrainSweepRun>& runs, double goal) {
  std::string text =
      "<div class=\"panel\">\n<table class=\"runs\">\n<tr><th>run</th><th>settings</th>"
      "<th></th><th>ranks</th><th>accuracy</th><th>best</th><th>epochs to " +
      fixedText(100 * goal, 1) + " %</th><th>seconds to the same</th><th>noise scale</th></tr>\n";
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const TrainSweepRun& run = runs[r];
    const std::optional<Point> way = wayTo(run, goal);
    text +=
        "<tr>" + cell("<i class=\"" + styleOf(r) + "\"></i>" + htmlText(run.name)) +
        cell(htmlText(run.settings) +
             (run.ended.empty() ? "" : "<br>ended: " + htmlText(run.ended))) +
        cell("") + cell(std::to_string(run.ranks)) +
        cell(run.accuracy.empty() ? "\u2013" : fixedText(100 * run.accuracy.back(), 2)) +
        cell(run.accuracy.empty() ? "\u2013" : fixedText(100 * best(run), 2)) +
        cell(way ? fixedText(way->x, 1) : "\u2013") + cell(way ? numberText(way->y) : "\u2013") +
        cell(run.noise_scale.empty() ? "\u2013" : numberText(run.noise_scale.back())) + "</tr>\n";
  }
  return text + "</table>\n</div>\n";
}

} // namespace
} // namespace training

void writeTrainSweep(const std::string& path, const std::string& title,
                     const std::vector<TrainSweepRun>& runs, const std::string& summary) {
  using namespace training;
  const bool noise = std::any_of(runs.begin(), runs.end(),
                                 [](const TrainSweepRun& run) { return !run.noise_scale.empty(); });
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      htmlText(title) + "</title>\n<style>" + kPageStyle + "</style>\n</head>\n<body>\n<h1>" +
      htmlText(title) + "</h1>\n<p>A sweep by Rondo: runs that differ in the settings below</p>\n" +
      (summary.empty() ? "" : "<p>" + htmlText(summary) + "</p>\n");
  text += "<div class=\"charts\">\n" + chartText(accuracyChart(runs, false)) +
          chartText(accuracyChart(runs, true)) + (noise ? chartText(noiseChart(runs)) : "") +
          "</div>\n<h2>Runs</h2>\n" + table(runs, goalOf(runs));
  if (noise)
    text +=
        "<p>The noise scale is the batch, in samples, whose mean gradient is as much noise as "
        "signal (last epoch): smaller batches need fewer epochs, larger ones take fewer steps for "
        "more samples each.</p>\n";
  TextFile file(path, TextFile::Begin::anew);
  file.write(text + "</body>\n</html>\n");
  file.close();
}

} // namespace rondo
