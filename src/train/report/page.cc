// Builds the report page from its parts.
#include "train/report/page.h"

#include "train/report/breakdown.h"
#include "train/report/chart.h"
#include "train/report/html.h"
#include "train/report/page_style.h"
#include "train/report/text_file.h"

namespace rondo::training {

namespace {

std::vector<Point> ofSteps(const TrainRecord& record, double (*value)(const StepRecord&)) {
  std::vector<Point> points;
  for (const StepRecord& step : record.steps)
    points.push_back({static_cast<double>(step.number), value(step)});
  return points;
}

/// Mean losses of epochs; each is drawn at the middle step of its epoch.
std::vector<Point> epochLosses(const TrainRecord& record) {
  std::vector<Point> points;
  std::int64_t before = record.steps.empty() ? 0 : record.steps.front().number - 1;
  for (const EpochRecord& epoch : record.epochs) {
    points.push_back({static_cast<double>(before + 1 + epoch.last_step) / 2, epoch.loss});
    before = epoch.last_step;
  }
  return points;
}

/// In percent, after each epoch and at the end.
std::vector<Point> accuracies(const TrainRecord& record) {
  std::vector<Point> points;
  for (const EpochRecord& epoch : record.epochs)
    points.push_back({static_cast<double>(epoch.last_step), 100 * epoch.test_accuracy});
  if (record.end_accuracy)
    points.push_back({static_cast<double>(record.steps.back().number), 100 * *record.end_accuracy});
  return points;
}

std::string tile(const std::string& value, const std::string& name) {
  return "<div><b>" + htmlText(value) + "</b><span>" + htmlText(name) + "</span></div>\n";
}

/// The main figures of the run.
std::string tiles(const TrainRecord& record) {
  std::vector<double> times, exposed, speeds;
  for (const StepRecord& step : record.steps) {
    times.push_back(step.times.step);
    exposed.push_back(step.times.communication);
    speeds.push_back(step.samples_per_second);
  }
  const double step_ms = percentile(times, 0.5);
  std::string text = "<div class=\"tiles\">\n";
  if (const auto tested = accuracies(record); !tested.empty())
    text += tile(fixedText(tested.back().y, 2) + " %", "test accuracy");
  if (!record.epochs.empty())
    text += tile(fixedText(record.epochs.back().loss, 4), "training loss, last epoch");
  text += tile(numberText(step_ms) + " ms", "median step");
  text += tile(numberText(percentile(speeds, 0.5)), "samples per second");
  if (step_ms > 0)
    text += tile(fixedText(100 * percentile(exposed, 0.5) / step_ms, 1) + " %",
                 "of a step is exposed communication");
  const std::size_t steps = record.steps.size();
  text += tile(numberText(record.seconds) + " s",
               numberText(static_cast<double>(steps)) + (steps == 1 ? " step" : " steps"));
  return text + "</div>\n";
}

std::string curves(const TrainRecord& record) {
  const auto loss = ofSteps(record, [](const StepRecord& s) { return s.loss; });
  const auto rate = ofSteps(record, [](const StepRecord& s) { return s.learning_rate; });
  const auto time = ofSteps(record, [](const StepRecord& s) { return s.times.step; });
  std::string text = "<h2>Training</h2>\n<div class=\"charts\">\n";
  text += chartText({.title = "Training loss",
                     .across = "step",
                     .up = "mean over samples",
                     .series = {{"steps", "each", false, loss},
                                {"epochs", "second", true, epochLosses(record)}}});
  text += chartText({.title = "Test accuracy",
                     .across = "step",
                     .up = "percent",
                     .series = {{"accuracy", "main", true, accuracies(record)}}});
  text += chartText({.title = "Step time",
                     .across = "step",
                     .up = "milliseconds",
                     .series = {{"step", "main", false, time}},
                     .from_zero = true});
  text += chartText({.title = "Learning rate",
                     .across = "step",
                     .up = "",
                     .series = {{"rate", "main", false, rate}},
                     .from_zero = true});
  return text + "</div>\n";
}

std::string settings(const TrainRecord& record) {
  if (record.settings.empty()) return "";
  std::string text = "<h2>Settings</h2>\n<div class=\"panel\"><dl class=\"settings\">\n";
  for (const auto& [name, value] : record.settings)
    text += "<div><dt>" + htmlText(name) + "</dt><dd>" + htmlText(value) + "</dd></div>\n";
  return text + "</dl></div>\n";
}

} // namespace

std::string pageText(const TrainRecord& record) {
  const std::string title = htmlText(record.title);
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      title + "</title>\n<style>" + kPageStyle + "</style>\n</head>\n<body>\n";
  text += "<h1>" + title + "</h1>\n<p>A training run by Rondo</p>\n";
  text += tiles(record) + curves(record);
  text += "<h2>Where the time of a step goes</h2>\n<div class=\"panel\">\n" +
          breakdownText(record.steps) + "</div>\n";
  const std::string lanes = timelineText(record.timeline);
  if (!lanes.empty())
    text +=
        "<h2>Buckets during the backward pass</h2>\n<div class=\"panel\">\n" + lanes + "</div>\n";
  return text + settings(record) + "</body>\n</html>\n";
}

void writePage(const std::string& path, const TrainRecord& record) {
  TextFile file(path, TextFile::Begin::anew);
  file.write(pageText(record));
  file.close();
}

} // namespace rondo::training
