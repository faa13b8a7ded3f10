// Tests the text of trace events.
#include "base/trace_events.h"

#include <nlohmann/json.hpp>
#include <string>

#include "support/test.h"

namespace rondo::test {

// Proves: a span ends where the next one of its lane begins, however their times round. Perfetto
// puts a span that begins before the end of the one before it into another row.
TEST_CASE("spans that follow each other do not overlap when they are rounded", "[trace]") {
  base::TraceEvents events;
  double begin = 0.4;
  for (int i = 0; i < 100; ++i, begin += 1000.7) events.span(0, 0, "s", "step", begin, 1000.7, {});
  const auto json = nlohmann::json::parse(std::string(base::TraceEvents::kHead) + events.take() +
                                          std::string(base::TraceEvents::kTail));
  const auto picoseconds = [](const nlohmann::json& value) {
    return std::llround(value.get<double>() * 1e6);
  };
  long long end = 0;
  for (const auto& event : json["traceEvents"]) {
    CHECK(picoseconds(event["ts"]) == end);
    end = picoseconds(event["ts"]) + picoseconds(event["dur"]);
  }
}

} // namespace rondo::test
