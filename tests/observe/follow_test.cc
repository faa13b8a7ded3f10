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
#include "observe/follow.h"
#include "observe/memory.h"
#include "observe/recorder.h"
#include "observe/trace.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

using namespace observe;
using nlohmann::json;

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
    for (const json& event : json::parse(readFile(files->path().string()))) {
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

// Proves: what the record did before it was traced does not change what is kept.
TEST_CASE("a trace has all calls of a communicator that had made many calls before it was traced") {
  for (const std::uint64_t before : {63, 64, 2047, 2100, 5000, 20000}) {
    INFO(before << " calls before");
    const Traced traced([before](Recorder&, const std::shared_ptr<Trace>& trace) {
      Recorder late({7, 9, 0, 1, "self"});
      for (std::uint64_t i = 1; i <= before; ++i) call(late, i);
      Trace::follow(trace, late);
      for (std::uint64_t i = 1; i <= 3000; ++i) call(late, before + i);
    });
    CHECK(traced.facts == json{{"calls", 3000}, {"left_out", 0}});
    CHECK(traced.spans.size() == 3000);
  }
}

// Proves: closed communicators whose records wait for the traces' threads leave blocks for others.
// The threads nap; the communicators of all traces are opened and closed meanwhile.
TEST_CASE("programs that open and close communicators quickly have records for all of them") {
  constexpr std::uint64_t kTraces = 4, kOpened = 300, kCalls = 20;
  const TemporaryFolder folder;
  std::uint64_t recorded = 0;
  {
    std::vector<std::shared_ptr<Trace>> traces;
    for (std::uint64_t t = 0; t < kTraces; ++t) {
      traces.push_back(Trace::open(folder.file("t"), {7, t, 0, 1, "self"}));
      traces.back()->begin({});
    }
    for (std::uint64_t i = 0; i < kOpened; ++i)
      for (const auto& trace : traces) {
        Recorder one({7, 100 + i, 0, 1, "self"});
        Trace::follow(trace, one);
        if (one.block()) ++recorded;
        for (std::uint64_t k = 1; k <= kCalls; ++k) call(one, k);
      }
  }
  CHECK(recorded == kTraces * kOpened);
  std::uint64_t calls = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.file("t")))
    for (const json& event : json::parse(readFile(file.path().string())))
      if (event["name"] == "end of rondo trace")
        calls += event["args"]["calls"].get<std::uint64_t>() +
                 event["args"]["left_out"].get<std::uint64_t>();
  CHECK(calls == kTraces * kOpened * kCalls);
}

/// A record that the test writes itself.
struct Written {
  void write(std::uint64_t number) {
    block->records()[number % kFewRecords] = {number, number, 1, 2, kShape.packed(), 1};
  }
  std::shared_ptr<Block> block = Block::take();
};

TEST_CASE("a follower waits for a call that is being written, and counts one that never was") {
  Written record;
  BlockHead& head = record.block->head();
  head.capacity = kFewRecords;
  Follower follower(record.block, 1);
  std::vector<Follower::Call> ended;
  const auto read = [&] {
    while (follower.read(head.claimed, ~std::uint64_t{0}, ended)) {
    }
  };
  record.write(1);
  head.claimed = 2;
  read();
  CHECK(ended.size() == 1);
  CHECK(follower.unread() == 1);
  CHECK(follower.takeMissed() == 0);
  record.write(2);
  head.claimed = 4; // 3 never comes: calls begin one after the other
  record.write(4);
  read();
  CHECK(ended.size() == 3);
  CHECK(follower.unread() == 0);
  CHECK(follower.takeMissed() == 1);
}

TEST_CASE("a follower counts a call that was in flight as unread until it has read its end") {
  Written record;
  record.block->head().capacity = kFewRecords;
  Follower follower(record.block, 1);
  std::vector<Follower::Call> ended;
  record.write(1);
  record.block->records()[1].ended = 0;
  record.block->head().claimed = 1;
  follower.read(1, 9, ended);
  CHECK(ended.empty());
  CHECK(follower.unread() == 1);
  record.write(1);
  follower.read(1, 9, ended);
  CHECK(ended.size() == 1);
  CHECK(follower.unread() == 0);
}

/// Reads nothing.
struct Silent final : RecordReader {
  void filled() override {}
  void waits(std::uint64_t, int, const std::string&) override {}
};

TEST_CASE("a follower reads every call of a record that grows meanwhile") {
  for (int round = 0; round < 100; ++round) {
    Recorder recorder({7, 9, 0, 1, "self"});
    recorder.keepFor(std::make_unique<Silent>());
    Follower follower(recorder.block(), 1);
    std::jthread writer([&recorder] {
      for (std::uint64_t i = 1; i < kMostTraced; ++i) call(recorder, i);
    });
    std::vector<Follower::Call> ended;
    while (follower.last() + 1 < kMostTraced)
      follower.read(follower.last(), ~std::uint64_t{0}, ended);
    writer.join();
    while (follower.read(follower.last(), ~std::uint64_t{0}, ended)) {
    }
    REQUIRE(follower.takeMissed() == 0);
    REQUIRE(ended.size() == kMostTraced - 1);
  }
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

// Proves also: a record that grows for a trace keeps the calls that were made before, and the end
// of one that is in flight meanwhile.
TEST_CASE("a dump of a traced communicator has its last 2048 calls") {
  std::size_t early = 0, late = 0;
  const auto dumped = [] {
    std::size_t lines = 0;
    bool open = false; // closed communicators of other cases have their last calls in the dump
    const TemporaryFolder folder;
    const base::UniqueFd file(
        ::open(folder.file("dump").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(writeDump(memoryFile(), file.get(), "request", 'R') == 0);
    for (const std::string& line : linesOf(readFile(folder.file("dump")))) {
      if (line.starts_with("{\"communicator\":"))
        open = line.find("\"open\":true") != std::string::npos;
      lines += open && line.find("\"state\":\"completed\"") != std::string::npos ? 1 : 0;
    }
    return lines;
  };
  const Traced traced([&](Recorder& recorder, const std::shared_ptr<Trace>& trace) {
    Recorder other({7, 9, 0, 1, "self"});
    for (std::uint64_t i = 1; i <= 3000; ++i) call(other, i);
    const Ticket last = other.begin({kShape.packed(), 1}, 3001, true);
    Trace::follow(trace, other);
    last.end(false);
    late = dumped();
    for (std::uint64_t i = 1; i <= 3000; ++i) call(recorder, i);
    early = dumped() - late;
  });
  CHECK(late == kMostRecords);
  CHECK(early == kMostRecords);
}

} // namespace
} // namespace rondo::test
