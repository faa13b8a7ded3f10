// Traces of recorders without ranks: what is read, what is left out, and in which lanes.
#include <fcntl.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "observe/dump.h"
#include "observe/memory.h"
#include "observe/recorder.h"
#include "observe/trace.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::observe {
namespace {

using nlohmann::json;
using tools::TemporaryFolder;

constexpr Shape kShape{.collective = Collective::allreduce, .type = DataType::float32};

/// The trace that `calls` makes.
struct Traced {
  explicit Traced(const std::function<void(Recorder&, const std::shared_ptr<Trace>&)>& calls) {
    const TemporaryFolder folder;
    {
      std::optional<Recorder> recorder(std::in_place, Identity{7, 8, 0, 1, "self"});
      const auto trace = Trace::open(folder.file("t"), recorder->identity());
      trace->begin({});
      Trace::follow(trace, *recorder);
      calls(*recorder, trace);
      recorder.reset();
    }
    const std::filesystem::directory_iterator files(folder.file("t"));
    for (const json& event : json::parse(tools::readFile(files->path().string()))) {
      if (event.value("cat", "") == "call") spans.push_back(event);
      if (event["ph"] == "i") marks.push_back(event);
      if (event["name"] == "end of rondo trace") facts = event["args"];
    }
  }
  std::vector<json> spans, marks;
  json facts;
};

void call(Recorder& recorder, std::uint64_t sequence) {
  recorder.begin({kShape.packed(), 1}, sequence, true).end(false);
}

TEST_CASE("a trace has all calls of communicators that were closed before they were written") {
  const Traced traced([](Recorder&, const std::shared_ptr<Trace>& trace) {
    for (std::uint64_t i = 1; i <= 50; ++i) {
      Recorder child({7, 100 + i, 0, 1, "self"});
      Trace::follow(trace, child);
      for (std::uint64_t k = 1; k <= 200; ++k) call(child, k);
    }
  });
  CHECK(traced.facts == json{{"calls", 10000}, {"left_out", 0}});
  CHECK(traced.spans.size() == 10000);
}

TEST_CASE("a trace leaves out a call that was overwritten while it was in flight, and counts it") {
  const Traced traced([](Recorder& recorder, const std::shared_ptr<Trace>&) {
    const Ticket first = recorder.begin({kShape.packed(), 1}, 1, true);
    for (std::uint64_t i = 2; i <= kMostTraced + 1; ++i) call(recorder, i);
    first.end(false);
  });
  CHECK(traced.facts["left_out"].get<std::uint64_t>() > 0);
  CHECK(traced.facts["calls"].get<std::uint64_t>() +
            traced.facts["left_out"].get<std::uint64_t>() ==
        kMostTraced + 1);
  for (const json& span : traced.spans) REQUIRE(span["args"]["sequence"] != 1);
}

TEST_CASE("a trace measures the end of a call that did not wait, and says whether it failed") {
  constexpr std::chrono::milliseconds kWork{2};
  const Traced traced([&](Recorder& recorder, const std::shared_ptr<Trace>&) {
    const Ticket ticket = recorder.begin({kShape.packed(), 1}, 1, true);
    std::this_thread::sleep_for(kWork);
    ticket.end(true);
  });
  REQUIRE(traced.spans.size() == 1);
  CHECK(traced.spans[0]["dur"].get<double>() >= 1900); // the two clocks' rates differ a little
  CHECK(traced.spans[0]["args"]["failed"] == 1);
}

TEST_CASE("a mark is in the lane of the call that waits") {
  const Traced traced([](Recorder& recorder, const std::shared_ptr<Trace>&) {
    const Ticket first = recorder.begin({kShape.packed(), 1}, 1, true);
    const Ticket second = recorder.begin({kShape.packed(), 1}, 2, true);
    recorder.look();
    recorder.waits(second, 3, "waiting", 42);
    recorder.looked();
    second.end(false);
    first.end(false);
  });
  REQUIRE(traced.spans.size() == 2);
  REQUIRE(traced.marks.size() == 1);
  CHECK(traced.marks[0]["name"] == "waits for rank 3");
  for (const json& span : traced.spans)
    CHECK((span["args"]["sequence"] == 2) == (span["tid"] == traced.marks[0]["tid"]));
}

/// Counts what it hears.
struct Counter final : CallListener {
  Counter(int& begins, int& ends) : begun_(begins), ended_(ends) {}
  void begun(const Record& call) override { begun_ += call.ended == 0 ? 1 : 0; }
  void ended(const Record& call) override { ended_ += call.ended >= call.entered - 1 ? 1 : 0; }
  int &begun_, &ended_;
};

TEST_CASE("calls that callbacks hear of are in the trace, too") {
  int begun = 0, ended = 0;
  const Traced traced([&](Recorder& recorder, const std::shared_ptr<Trace>&) {
    recorder.listen(std::make_unique<Counter>(begun, ended));
    for (std::uint64_t i = 1; i <= 100; ++i) call(recorder, i);
  });
  CHECK(begun == 100);
  CHECK(ended == 100);
  CHECK(traced.facts == json{{"calls", 100}, {"left_out", 0}});
}

TEST_CASE("a dump of a traced communicator has its last 2048 calls") {
  std::size_t lines = 0;
  const Traced traced([&](Recorder& recorder, const std::shared_ptr<Trace>&) {
    for (std::uint64_t i = 1; i <= 3000; ++i) call(recorder, i);
    const TemporaryFolder folder;
    const base::UniqueFd file(
        ::open(folder.file("dump").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(writeDump(memoryFile(), file.get(), "request", 'R') == 0);
    for (const std::string& line : tools::linesOf(tools::readFile(folder.file("dump"))))
      lines += line.find("\"state\":\"completed\"") != std::string::npos ? 1 : 0;
  });
  CHECK(lines == kMostRecords);
}

} // namespace
} // namespace rondo::observe
