// Turns the timeline of a run into a trace.
#include "train/report/trace.h"

#include <algorithm>
#include <set>

#include "base/trace_events.h"
#include "train/report/text_file.h"

namespace rondo::training {

std::string traceText(std::span<const TimelineEvent> all) {
  std::set<int> ranks;
  double origin = all.empty() ? 0 : all[0].begin;
  for (const TimelineEvent& event : all) {
    ranks.insert(event.rank);
    origin = std::min(origin, event.begin);
  }
  base::TraceEvents events;
  for (const int rank : ranks) {
    events.nameRank(rank, "rank " + std::to_string(rank));
    for (std::size_t lane = 0; lane < kLaneNames.size(); ++lane)
      events.nameLane(rank, static_cast<int>(lane), kLaneNames[lane]);
  }
  for (const TimelineEvent& event : all) {
    base::TraceArguments arguments;
    arguments.add("step", event.step);
    if (event.bytes > 0) arguments.add("bytes", event.bytes);
    events.span(event.rank, static_cast<int>(event.lane), event.name, nameOf(event.lane),
                (event.begin - origin) * 1e9, event.seconds * 1e9, arguments);
  }
  using Form = base::TraceEvents;
  return std::string(Form::kHead) + events.take() + std::string(Form::kTail);
}

void writeTrace(const std::string& path, std::span<const TimelineEvent> events) {
  TextFile file(path, TextFile::Begin::anew);
  file.write(traceText(events));
  file.close();
}

} // namespace rondo::training
