// Draws the timeline of one step: each rank's computation and communication in lanes.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "train/report/breakdown.h"
#include "train/report/chart.h"
#include "train/report/html.h"

namespace rondo::training {

namespace {

constexpr double kWidth = 1080, kLeft = 165, kRight = 12;
constexpr double kRow = 24, kGap = 10, kAxis = 40;
constexpr std::size_t kMostRanks = 8;

using LaneKey = std::pair<int, Lane>; ///< rank, lane

/// The events of one lane of one rank, in rows without overlap.
struct Rows {
  std::vector<std::vector<const TimelineEvent*>> rows;

  void add(const TimelineEvent& event) {
    const auto free = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
      return row.back()->begin + row.back()->seconds <= event.begin;
    });
    if (free == rows.end()) rows.push_back({&event});
    else free->push_back(&event);
  }
};

/// The events of the middle one of the observed steps, since the first ones are slower.
std::vector<TimelineEvent> middleStep(const std::vector<TimelineEvent>& events) {
  std::set<std::int64_t> steps;
  for (const TimelineEvent& event : events) steps.insert(event.step);
  const auto middle = *std::next(steps.begin(), static_cast<std::ptrdiff_t>(steps.size() / 2));
  std::vector<TimelineEvent> result;
  for (const TimelineEvent& event : events)
    if (event.step == middle) result.push_back(event);
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return result;
}

/// The CSS class that sets its colour: each part of a step has one.
std::string styleOf(const TimelineEvent& event) {
  if (event.lane == Lane::communication) return "communication";
  for (const char* part : {"data", "forward", "backward", "optimizer"})
    if (event.name == part) return part;
  return "other";
}

std::string eventText(const TimelineEvent& event, double x, double y, double width) {
  std::string hint = event.name + ": " + numberText(event.seconds * 1e3) + " ms";
  if (event.bytes > 0) hint += ", " + bytesText(event.bytes);
  std::string text = boxText({x, y, std::max(1.0, width - 1), kRow - 3}, styleOf(event), hint);
  // A letter is about 7 pixels wide. A text that does not fit is only in the tooltip.
  const std::string with_bytes =
      event.bytes > 0 ? event.name + ", " + bytesText(event.bytes) : event.name;
  for (const std::string& label : {with_bytes, event.name})
    if (width > 7.0 * static_cast<double>(label.size()) + 10) {
      text += labelText(x + 5, y + 15, "start", label, "inside");
      break;
    }
  return text;
}

} // namespace

std::string timelineText(const std::vector<TimelineEvent>& events) {
  if (events.empty()) return "";
  const std::vector<TimelineEvent> step = middleStep(events);
  std::map<LaneKey, Rows> lanes;
  std::set<int> ranks;
  double end = 0;
  for (const TimelineEvent& event : step) {
    ranks.insert(event.rank);
    if (ranks.size() > kMostRanks) ranks.erase(std::prev(ranks.end()));
    lanes[{event.rank, event.lane}].add(event);
    end = std::max(end, event.begin + event.seconds - step[0].begin);
  }
  std::erase_if(lanes, [&](const auto& lane) { return !ranks.contains(lane.first.first); });
  const auto at = [&](double seconds) {
    return kLeft + (end > 0 ? seconds / end : 0) * (kWidth - kLeft - kRight);
  };
  std::string picture;
  double y = 4;
  for (const auto& [key, lane] : lanes) {
    picture += labelText(kLeft - 10, y + 15, "end",
                         "rank " + std::to_string(key.first) +
                             (key.second == Lane::compute ? " compute" : " communication"),
                         "axis");
    for (const auto& row : lane.rows) {
      for (const TimelineEvent* event : row) {
        const double x = at(event->begin - step[0].begin);
        picture += eventText(*event, x, y, at(event->seconds) - kLeft);
      }
      y += kRow;
    }
    if (key.second == Lane::communication) y += kGap;
  }
  std::string grid;
  for (double tick : ticks(0, end * 1e3, 8))
    if (tick <= end * 1e3) {
      grid += lineText(at(tick / 1e3), 0, at(tick / 1e3), y, "grid");
      grid += labelText(at(tick / 1e3), y + 16, "middle", numberText(tick));
    }
  grid += labelText((kLeft + kWidth) / 2, y + 34, "middle", "milliseconds", "axis");
  return "<p>Step " + std::to_string(step[0].step) +
         ". Communication during computation is hidden; communication alone is exposed.</p>\n"
         "<svg viewBox=\"0 0 " +
         fixedText(kWidth, 0) + " " + fixedText(y + kAxis, 0) +
         "\" role=\"img\" aria-label=\"Timeline of a step\">\n" + grid + picture + "</svg>\n";
}

} // namespace rondo::training
