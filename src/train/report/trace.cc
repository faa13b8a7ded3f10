// Writes metadata events ("M") that name ranks and lanes, then complete events ("X") in
// microseconds.
#include "train/report/trace.h"

#include <algorithm>
#include <array>
#include <set>

#include "train/report/json.h"
#include "train/report/text_file.h"

namespace rondo::training {

namespace {

constexpr std::array<std::string_view, 2> kLanes = {"compute", "communication"};

std::string metadata(std::string_view kind, int rank, int lane, std::string_view name) {
  return JsonObject()
      .add("ph", "M")
      .add("name", kind)
      .add("pid", rank)
      .add("tid", lane)
      .add("args", JsonObject().add("name", name))
      .str();
}

std::string describe(const TimelineEvent& event, double origin) {
  JsonObject arguments;
  arguments.add("step", event.step);
  if (event.bytes > 0) arguments.add("bytes", event.bytes);
  const auto lane = static_cast<std::size_t>(event.lane);
  return JsonObject()
      .add("ph", "X")
      .add("name", event.name)
      .add("cat", kLanes[lane])
      .add("pid", event.rank)
      .add("tid", lane)
      .add("ts", (event.begin - origin) * 1e6)
      .add("dur", event.seconds * 1e6)
      .add("args", arguments)
      .str();
}

} // namespace

std::string traceText(std::span<const TimelineEvent> events) {
  std::set<int> ranks;
  double origin = events.empty() ? 0 : events[0].begin;
  for (const TimelineEvent& event : events) {
    ranks.insert(event.rank);
    origin = std::min(origin, event.begin);
  }
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  const auto add = [&](const std::string& event) {
    text += separator + event;
    separator = ",\n";
  };
  for (int rank : ranks) {
    add(metadata("process_name", rank, 0, "rank " + std::to_string(rank)));
    for (std::size_t lane = 0; lane < kLanes.size(); ++lane)
      add(metadata("thread_name", rank, static_cast<int>(lane), kLanes[lane]));
  }
  for (const TimelineEvent& event : events) add(describe(event, origin));
  return text + "\n]}\n";
}

void writeTrace(const std::string& path, std::span<const TimelineEvent> events) {
  TextFile file(path, TextFile::Begin::anew);
  file.write(traceText(events));
  file.close();
}

} // namespace rondo::training
