// Tests reports of made-up records: JSON that a parser reads back, and a page that is well formed,
// shows its data, and loads nothing from outside.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "rondo/error.h"
#include "support/data_files.h"
#include "support/test.h"
#include "train/report/breakdown.h"
#include "train/report/chart.h"
#include "train/report/html.h"
#include "train/report/json.h"
#include "train/report/metrics.h"
#include "train/report/page.h"
#include "train/report/trace.h"

namespace rondo::test {
namespace {

using namespace training;
using Json = nlohmann::json;

const std::string kWild = "a \"quoted\" \\ <b>&amp;\n\x01 \u00e9";

StepRecord stepRecord(std::int64_t number) {
  return {.number = number,
          .epoch = 1 + static_cast<int>(number) / 100,
          .step = 1 + static_cast<int>(number) % 100,
          .loss = 2.0 / static_cast<double>(number),
          .learning_rate = 0.1,
          .samples_per_second = 1e5 / 3,
          .times = {.step = 10,
                    .data = 1,
                    .forward = 2,
                    .backward = 3,
                    .communication = 1.5,
                    .optimizer = 0.5}};
}

/// Three steps of this many ranks, at a time far from zero.
std::vector<TimelineEvent> drawTimeline(int ranks) {
  std::vector<TimelineEvent> events;
  for (int rank = 0; rank < ranks; ++rank)
    for (std::int64_t step : {7, 8, 9}) {
      const double begin = 1000 + static_cast<double>(step) * 0.01;
      events.push_back({"forward", rank, Lane::compute, step, begin, 0.003, 0});
      events.push_back({"backward", rank, Lane::compute, step, begin + 0.003, 0.006, 0});
      events.push_back(
          {"bucket 0", rank, Lane::communication, step, begin + 0.004, 0.003, 1U << 20});
      events.push_back({"bucket 1", rank, Lane::communication, step, begin + 0.006, 0.002, 512});
    }
  return events;
}

TrainRecord drawRecord() {
  TrainRecord record;
  record.title = kWild;
  record.settings = {{"model", "mlp"}, {kWild, "<script>alert(1)</script>"}};
  for (std::int64_t number = 1; number <= 20'000; ++number)
    record.steps.push_back(stepRecord(number));
  for (int epoch = 1; epoch <= 10; ++epoch)
    record.epochs.push_back({epoch, epoch * 2000, 1.0 / epoch, 0.9 - 0.1 / epoch, 12});
  record.timeline = drawTimeline(2);
  record.seconds = 100;
  return record;
}

std::size_t count(const std::string& text, const std::string& piece) {
  std::size_t times = 0;
  for (auto at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++times;
  return times;
}

/// Fails if elements are not closed in order. Attributes are quoted, so they contain no '>'.
void requireWellFormed(const std::string& html) {
  const std::set<std::string> single = {"!DOCTYPE", "meta", "line", "polyline"};
  std::vector<std::string> open;
  for (auto at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const auto end = html.find('>', at);
    REQUIRE(end != std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    REQUIRE(tag.find('<') == std::string::npos);
    const std::string name = tag.substr(0, tag.find_first_of(" \n"));
    if (name[0] == '/') {
      REQUIRE(!open.empty());
      REQUIRE(open.back() == name.substr(1));
      open.pop_back();
    } else if (tag.back() != '/' && !single.contains(name)) {
      open.push_back(name);
    }
  }
  REQUIRE(open.empty());
}

} // namespace

TEST_CASE("JSON text and numbers are read back as they were") {
  REQUIRE(Json::parse(jsonText(kWild)) == kWild);
  for (double value : {0.0, -1.5, 1e300, 1e-300, 0.1, 1.0 / 3, 5e-324})
    REQUIRE(Json::parse(jsonNumber(value)).get<double>() == value);
  for (double value : {std::nan(""), std::numeric_limits<double>::infinity()})
    REQUIRE(Json::parse(jsonNumber(value)).is_null());
  const Json object =
      Json::parse(JsonObject().add(kWild, kWild).add("n", 7).add("o", JsonObject()).str());
  REQUIRE(object == Json{{kWild, kWild}, {"n", 7}, {"o", Json::object()}});
}

TEST_CASE("metrics are one object per line, and a resumed run appends to them") {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  writeRaw(path, Bytes(10, 'x'));
  StepRecord nan = stepRecord(2);
  nan.loss = std::nan("");
  {
    MetricsFile file(path, TextFile::Begin::anew);
    file.add(stepRecord(1));
    file.add(nan);
    file.add(EpochRecord{1, 2, 0.75, 0.5, 3});
    // Another program can read complete epochs during the run.
    const Bytes so_far = readRaw(path);
    REQUIRE(std::count(so_far.begin(), so_far.end(), '\n') == 3);
  }
  { MetricsFile(path, TextFile::Begin::behind).add(stepRecord(3)); }
  const Bytes content = readRaw(path);
  std::istringstream lines(std::string(content.begin(), content.end()));
  std::vector<Json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(Json::parse(line));
  REQUIRE(objects.size() == 4);
  REQUIRE(objects[0] == Json{{"kind", "step"},
                             {"number", 1},
                             {"epoch", 1},
                             {"step", 2},
                             {"loss", 2.0},
                             {"learning_rate", 0.1},
                             {"samples_per_second", 1e5 / 3},
                             {"ms",
                              {{"step", 10.0},
                               {"data", 1.0},
                               {"forward", 2.0},
                               {"backward", 3.0},
                               {"communication", 1.5},
                               {"optimizer", 0.5}}}});
  REQUIRE(objects[1]["loss"].is_null());
  REQUIRE(objects[2] == Json{{"kind", "epoch"},
                             {"epoch", 1},
                             {"number", 2},
                             {"loss", 0.75},
                             {"test_accuracy", 0.5},
                             {"seconds", 3.0}});
  REQUIRE(objects[3]["number"] == 3);
}

// Proves: the file is read in pieces, also one that base::readFile() refuses.
TEST_CASE("a metrics file of more than 64 MiB is cut after the step, and keeps what is before") {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  const std::string rest = ",\"pad\":\"" + std::string(1 << 20, 'x') + "\"}\n";
  constexpr int kSteps = 66, kKept = 65;
  std::uintmax_t kept = 0;
  {
    std::ofstream file(path);
    for (int step = 1; step <= kSteps; ++step) {
      file << "{\"kind\":\"step\",\"number\":" << step << rest;
      if (step == kKept) kept = static_cast<std::uintmax_t>(file.tellp());
    }
  }
  cutMetrics(path, kKept);
  REQUIRE(std::filesystem::file_size(path) == kept);
}

TEST_CASE("a metrics file that cannot be read is an error, and not cut") {
  try {
    cutMetrics("/proc/self/mem", 1); // reading its begin fails
    FAIL("it was read");
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::system);
    REQUIRE(std::string(error.what()) == "/proc/self/mem: could not be read");
  }
}

TEST_CASE("a trace has a process for each rank, named lanes, and every event in microseconds") {
  const auto events = drawTimeline(3);
  const Json trace = Json::parse(traceText(events));
  std::map<std::pair<int, int>, std::string> lanes;
  std::vector<Json> complete;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") complete.push_back(event);
    if (event["name"] == "thread_name") lanes[{event["pid"], event["tid"]}] = event["args"]["name"];
    if (event["name"] == "process_name")
      REQUIRE(event["args"]["name"] == "rank " + std::to_string(event["pid"].get<int>()));
  }
  REQUIRE(lanes.size() == 6);
  REQUIRE(complete.size() == events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    REQUIRE(complete[i]["name"] == events[i].name);
    REQUIRE(complete[i]["pid"] == events[i].rank);
    REQUIRE(lanes[{events[i].rank, complete[i]["tid"]}] ==
            (events[i].lane == Lane::compute ? "compute" : "communication"));
    REQUIRE(std::abs(complete[i]["ts"].get<double>() - (events[i].begin - 1000.07) * 1e6) < 1e-3);
    REQUIRE(complete[i]["dur"].get<double>() == events[i].seconds * 1e6);
    REQUIRE(complete[i]["args"]["step"] == events[i].step);
    REQUIRE(complete[i]["args"].contains("bytes") == (events[i].bytes > 0));
  }
  REQUIRE(Json::parse(traceText({}))["traceEvents"].empty());
}

TEST_CASE("a page is well formed, shows its data, and fetches nothing") {
  const std::string page = pageText(drawRecord());
  requireWellFormed(page);
  REQUIRE(count(page, "<figure>") == 4);
  REQUIRE(count(page, "89.00 %") == 1); // accuracy of the last epoch
  REQUIRE(count(page, "<td>1.5 ms</td><td>1.5 ms</td><td>15.0 %") == 1); // communication
  REQUIRE(count(page, "<td>2 ms</td><td>2 ms</td><td>20.0 %") == 2);     // forward; other
  REQUIRE(count(page, "bucket 0: 3 ms, 1.0 MiB") == 2);                  // one step of two ranks
  REQUIRE(count(page, "Step 8.") == 1);
  REQUIRE(count(page, "&lt;script&gt;alert(1)&lt;/script&gt;") == 1);
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(", "@import", "<script"})
    REQUIRE(count(page, outside) == 0);
  REQUIRE(page.size() < 200'000); // for any number of steps
}

TEST_CASE("the page of a run that ends within an epoch shows the accuracy at its end") {
  TrainRecord record;
  record.steps = {stepRecord(1), stepRecord(2)};
  record.end_accuracy = 0.4321;
  const std::string page = pageText(record);
  requireWellFormed(page);
  REQUIRE(count(page, "43.21 %") == 1);
  REQUIRE(count(page, "Nothing was recorded.") == 0);
}

TEST_CASE("pages of almost empty records are well formed") {
  TrainRecord record;
  requireWellFormed(pageText(record));
  REQUIRE(count(pageText(record), "Nothing was recorded.") == 5);
  record.steps = {stepRecord(1)};
  record.epochs = {{1, 1, std::nan(""), 0, 0}};
  record.timeline = {{"forward", 0, Lane::compute, 1, 5, 0, 0}};
  const std::string page = pageText(record);
  requireWellFormed(page);
  for (const char* wrong : {"nan", "inf"})
    REQUIRE(count(page.substr(page.find("<body>")), wrong) == 0);
  // A single point has a mark: loss, accuracy, time, rate.
  REQUIRE(count(page, "circle class") == 4);
}

TEST_CASE("a timeline shows no more ranks than a reader can follow") {
  const std::string text = timelineText(drawTimeline(20));
  REQUIRE(count(text, "rank 7 compute") == 1);
  REQUIRE(count(text, "rank 8 compute") == 0);
  // 8 ranks with 4 events each.
  REQUIRE(count(text, "<rect") == 32);
}

TEST_CASE("buckets that are in flight at the same time have rows of their own") {
  const std::string text = timelineText(drawTimeline(1)), box = "<rect class=\"communication\"";
  std::set<std::string> rows;
  for (auto at = text.find(box); at != std::string::npos; at = text.find(box, at + 1)) {
    const auto y = text.find("y=", at);
    rows.insert(text.substr(y, text.find(' ', y) - y));
  }
  REQUIRE(count(text, box) == 2);
  REQUIRE(rows.size() == 2);
}

TEST_CASE("ticks are round, cover the values, and are about as many as asked for") {
  for (double low : {-3.7, 0.0, 0.012, 84.3, 1e6})
    for (double spread : {1e-3, 0.5, 7.0, 420.0, 9e5}) {
      const auto found = ticks(low, low + spread, 5);
      INFO(low << " to " << low + spread);
      REQUIRE(found.front() <= low + 1e-6 * spread);
      REQUIRE(found.back() >= low + spread - 1e-6 * spread);
      REQUIRE(found.size() >= 3);
      REQUIRE(found.size() <= 8);
    }
  REQUIRE(ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  const auto flat = ticks(3, 3, 5);
  REQUIRE(flat.front() < 3);
  REQUIRE(flat.back() > 3);
}

TEST_CASE("thinning keeps averages and leaves out values that are not finite") {
  std::vector<Point> points;
  for (int i = 0; i < 1000; ++i) points.push_back({static_cast<double>(i), i % 2 == 0 ? 1.0 : 3.0});
  points.push_back({1000, std::nan("")});
  const auto few = thinned(points, 100);
  REQUIRE(few.size() == 100);
  for (std::size_t i = 0; i < few.size(); ++i) {
    REQUIRE(std::abs(few[i].x - (static_cast<double>(i) * 10 + 4.5)) < 1e-9);
    REQUIRE(std::abs(few[i].y - 2) < 1e-9);
  }
  REQUIRE(thinned(points, 2000).size() == 1000);
}

TEST_CASE("numbers are written as people read them") {
  REQUIRE(numberText(0) == "0");
  REQUIRE(numberText(1234567) == "1,234,567");
  REQUIRE(numberText(-1234) == "-1,234");
  REQUIRE(numberText(999.6) == "1,000");
  REQUIRE(numberText(33.333) == "33.3");
  REQUIRE(numberText(2.5) == "2.5");
  REQUIRE(numberText(0.00004) == "0.00004");
  REQUIRE(numberText(std::nan("")) == "\u2013");
  REQUIRE(bytesText(1023) == "1023 B");
  REQUIRE(bytesText(25U << 20) == "25.0 MiB");
  REQUIRE(percentile({5, 1, 4, 2, 3, std::nan("")}, 0.5) == 3);
  REQUIRE(percentile({5, 1, 4, 2, 3}, 1) == 5);
  REQUIRE(percentile({}, 0.5) == 0);
}

TEST_CASE("a report that cannot be written is an error that names the file") {
  TemporaryFolder folder;
  const std::string path = folder.file("nowhere/page.html");
  REQUIRE_THROWS_WITH(writePage(path, {}),
                      path + ": could not be written: No such file or directory");
  REQUIRE_THROWS_WITH(writeTrace("/dev/full", drawTimeline(1)),
                      "/dev/full: could not be written: No space left on device");
}

} // namespace rondo::test
