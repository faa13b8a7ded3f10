// The record of calls: what it keeps, what its dumps contain, and what they do not believe.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/memory_file.h"
#include "base/unique_fd.h"
#include "bootstrap/session.h"
#include "observe/dump.h"
#include "observe/layout.h"
#include "observe/memory.h"
#include "observe/recorder.h"
#include "rondo/communicator.h"
#include "rondo/error.h"
#include "support/grid.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

using namespace observe;
using nlohmann::json;

/// A dump's lines, from a memory file.
std::vector<json> dumpOf(int memory, std::uint64_t last = ~std::uint64_t{0}) {
  const TemporaryFolder folder;
  const std::string path = folder.file("dump");
  {
    const base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(writeDump(memory, file.get(), "request", 'R', last) == 0);
  }
  std::vector<json> lines;
  for (const std::string& line : linesOf(readFile(path))) lines.push_back(json::parse(line));
  REQUIRE(lines.back().at("lines") == lines.size());
  return lines;
}

/// The lines of one communicator in this process's dump: its own, and those of its calls.
std::vector<json> linesOf(std::uint64_t communicator, std::uint64_t last = ~std::uint64_t{0}) {
  char id[17];
  std::snprintf(id, sizeof(id), "%016llx", static_cast<unsigned long long>(communicator));
  std::vector<json> found;
  bool ours = false;
  for (const json& line : dumpOf(memoryFile(), last)) {
    if (line.contains("communicator")) ours = line["communicator"] == id;
    if (ours && !line.contains("end")) found.push_back(line);
  }
  return found;
}

constexpr Shape kShape{.collective = Collective::allreduce, .type = DataType::float32};

TEST_CASE("a record keeps the last 2048 calls, and no call that was overwritten") {
  for (const std::uint64_t calls : {0, 1, 63, 64, 65, 127, 2047, 2048, 2049, 5000}) {
    INFO(calls << " calls");
    const std::uint64_t id = 0x1000 + calls;
    Recorder recorder({7, id, 0, 1, "self"});
    for (std::uint64_t i = 1; i <= calls; ++i) {
      const Ticket ticket = recorder.begin({kShape.packed(), 10 * i}, i, true);
      if (i != calls) ticket.end(i == calls - 1);
    }
    const auto lines = linesOf(id);
    const std::uint64_t kept = std::min<std::uint64_t>(calls, kMostRecords);
    REQUIRE(lines.size() == kept + 1);
    CHECK(lines[0]["entered"] == calls);
    for (std::uint64_t i = 1; i < lines.size(); ++i) {
      const std::uint64_t number = calls - kept + i;
      REQUIRE(lines[i]["record_id"] == number);
      REQUIRE(lines[i]["collective_seq_id"] == number);
      REQUIRE(lines[i]["count"] == 10 * number);
      REQUIRE(lines[i]["state"] == (number == calls       ? "started"
                                    : number + 1 == calls ? "failed"
                                                          : "completed"));
    }
  }
}

TEST_CASE("a record counts the calls and bytes of each collective, also of calls that it forgot") {
  Recorder recorder({7, 0x1f00, 0, 1, "self"});
  const Shape gather{.collective = Collective::allgather};
  for (std::uint64_t i = 0; i < 3000; ++i)
    recorder.begin({kShape.packed(), 1, 4}, i, true).end(false);
  recorder.begin({gather.packed(), 1, 1000}, 3001, true).end(false);
  CHECK(linesOf(0x1f00)[0]["totals"] ==
        json{{{"collective", "allreduce"}, {"calls", 3000}, {"bytes", 12000}},
             {{"collective", "allgather"}, {"calls", 1}, {"bytes", 1000}}});
}

TEST_CASE("a dump of the last calls has these, and those in flight") {
  Recorder recorder({7, 0x1f01, 0, 1, "self"});
  const Ticket first = recorder.begin({kShape.packed(), 1}, 1, true);
  for (std::uint64_t i = 2; i <= 100; ++i) recorder.begin({kShape.packed(), 1}, i, true).end(false);
  std::vector<std::uint64_t> numbers;
  for (const json& line : linesOf(0x1f01, 3))
    if (line.contains("state")) numbers.push_back(line["record_id"]);
  CHECK(numbers == std::vector<std::uint64_t>{1, 98, 99, 100});
  first.end(false);
}

TEST_CASE("the end of a call that was overwritten changes no other call") {
  Recorder recorder({7, 0x2000, 0, 1, "self"});
  const Ticket first = recorder.begin({kShape.packed(), 1}, 1, true);
  for (std::uint64_t i = 2; i <= kMostRecords + 1; ++i)
    recorder.begin({kShape.packed(), 1}, i, true);
  first.end(false);
  for (const json& line : linesOf(0x2000))
    if (line.contains("state")) REQUIRE(line["state"] == "started");
}

std::uint64_t steadyClock() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

TEST_CASE("a call's line has its arguments, algorithm and times") {
  Recorder recorder({7, 0x3000, 3, 8, "shm, tcp"});
  const std::uint8_t algorithm = recorder.algorithm("ring");
  CHECK(recorder.algorithm("tree") != algorithm);
  CHECK(recorder.algorithm("ring") == algorithm);
  const Shape reduce{.collective = Collective::reduce,
                     .type = DataType::bfloat16,
                     .op = ReduceOp::Kind::max,
                     .algorithm = algorithm,
                     .root = 5};
  const Shape send{.collective = Collective::sendrecv, .sending = true, .root = 2};
  const Shape gather{.collective = Collective::allgather, .uneven = true};
  recorder.begin({reduce.packed(), 12}, 1, true).end(false);
  recorder.begin({send.packed(), 3}, 9, false).end(false);
  const Ticket last = recorder.begin({gather.packed(), 0}, 2, true);
  recorder.look();
  recorder.waits(last, 6, "waiting to \"receive\"\n", 42);
  CHECK(linesOf(0x3000)[0]["waits"].empty()); // the look has not ended
  recorder.looked();
  recorder.look(); // the next one has not ended either, and the last one is still seen
  const std::uint64_t before = steadyClock();
  recorder.fail(ErrorCode::timeout, "late \xff", 6, 9);
  const std::uint64_t after = steadyClock();
  recorder.fail(ErrorCode::aborted, "a later failure", 1, 1);
  auto lines = linesOf(0x3000);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0]["rank"] == 3);
  CHECK(lines[0]["size"] == 8);
  CHECK(lines[0]["transports"] == "shm, tcp");
  json& failure = lines[0]["failure"];
  CHECK(failure["failed_ns"] >= before);
  CHECK(failure["failed_ns"] <= after);
  failure.erase("failed_ns");
  CHECK(failure ==
        json{{"code", "timeout"}, {"culprit", 6}, {"culprit_in_job", 9}, {"text", "late ?"}});
  CHECK(lines[0]["waits"].size() == 1);
  CHECK(lines[0]["waits"][0] ==
        json{{"record_id", 3}, {"peer", 6}, {"idle_ns", 42}, {"text", "waiting to \"receive\"?"}});
  CHECK(lines[1]["profiling_name"] == "rondo:Reduce");
  CHECK(lines[1]["op"] == "max");
  CHECK(lines[1]["dtype"] == "bfloat16");
  CHECK(lines[1]["root"] == 5);
  CHECK(lines[1]["algorithm"] == "ring");
  CHECK(lines[1]["time_completed_ns"] >= lines[1]["time_created_ns"]);
  CHECK(lines[2]["p2p_seq_id"] == 9);
  CHECK(lines[2]["profiling_name"] == "rondo:Send");
  CHECK(lines[2]["peer"] == 2);
  CHECK(lines[3]["profiling_name"] == "rondo:AllGatherv");
  recorder.looked();
  CHECK(linesOf(0x3000)[0]["waits"].empty());
}

TEST_CASE("times do not follow a wall clock that is set meanwhile") {
  Recorder recorder({7, 0x3100, 0, 1, "self"});
  FileHead head;
  REQUIRE(::pread(memoryFile(), &head, sizeof(head), 0) == static_cast<ssize_t>(sizeof(head)));
  CHECK(head.nanoseconds <= steadyClock()); // far below the wall clock's
  const std::uint64_t before = steadyClock();
  recorder.begin({kShape.packed(), 1}, 1, true);
  const auto line = linesOf(0x3100).at(1);
  const auto now = dumpOf(memoryFile()).at(0)["time_ns"].get<std::uint64_t>();
  // The age of the call by the record and by the clock; their rates agree to a thousandth.
  const std::uint64_t most = steadyClock() - before;
  CHECK(now - line["time_created_ns"].get<std::uint64_t>() <= most + most / 1000 + 1'000'000);
}

TEST_CASE(
    "a closed communicator leaves a summary and its last call, and the record never runs out of "
    "blocks") {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    Recorder recorder({7, 0x4000 + i, 0, 1, "self"});
    recorder.begin({kShape.packed(), 1}, 1, true).end(false);
    if (i != 998) recorder.begin({kShape.packed(), 2}, 2, true).end(true);
    if (i == 997) Recorder({7, 0x4fff, 0, 1, "self"}); // which makes no call
  }
  CHECK(linesOf(0x4fff).size() == 1);
  CHECK(linesOf(0x4000 + 998).at(1)["count"] == 1);
  const auto lines = linesOf(0x4000 + 999);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["open"] == false);
  CHECK(lines[0]["entered"] == 2);
  CHECK(lines[1]["count"] == 2);
  CHECK(lines[1]["state"] == "failed");
  std::vector<std::unique_ptr<Recorder>> many;
  for (std::uint64_t i = 0; i < 600; ++i) // more than there are blocks
    many.push_back(std::make_unique<Recorder>(Identity{7, 0x5000 + i, 0, 1, "self"}));
  for (const auto& one : many) one->begin({kShape.packed(), 1}, 1, true).end(false);
  CHECK(linesOf(0x5000).size() == 2);
  CHECK(linesOf(0x5000 + 599).empty());
}

TEST_CASE("a closed communicator that failed leaves the first call that the failure ended") {
  {
    Recorder recorder({7, 0x4800, 0, 1, "self"});
    const auto begin = [&](std::uint64_t number) {
      return recorder.begin({kShape.packed(), number}, number, true, 100 * number);
    };
    begin(1).end(true); // refused: the communicator goes on
    const Ticket waits = begin(2), quick = begin(3), later = begin(4);
    quick.end(false);
    recorder.fail(ErrorCode::peer_dead, "rank 1 died", 1, 1);
    waits.end(true);
    later.end(true);
  }
  const auto lines = linesOf(0x4800);
  REQUIRE(lines.size() == 2);
  CHECK(lines[1]["count"] == 2);
}

TEST_CASE("dumps that are made while calls are recorded contain whole calls only") {
  Recorder recorder({7, 0x6000, 0, 1, "self"});
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i)
      recorder.begin({kShape.packed(), i}, i, true).end(false);
  });
  std::size_t calls = 0;
  const int rounds = kWholeGrid ? 50 : 10;
  // More if the writer has got no processor, or was faster than each dump.
  for (int round = 0; round < rounds || (calls == 0 && round < 1000); ++round) {
    std::uint64_t before = 0;
    for (const json& line : linesOf(0x6000)) {
      if (!line.contains("state")) continue;
      ++calls;
      const auto number = line["record_id"].get<std::uint64_t>();
      REQUIRE(number > before);
      REQUIRE(line["count"] == number);
      REQUIRE(line["collective_seq_id"] == number);
      before = number;
    }
  }
  stop = true;
  writer.join();
  CHECK(calls > 0);
}

TEST_CASE("a memory file with any content makes a dump of valid lines, or none") {
  Recorder recorder({7, 0x7000, 0, 1, "self"});
  for (std::uint64_t i = 1; i <= 100; ++i) recorder.begin({kShape.packed(), 1}, i, true).end(false);
  std::vector<std::byte> bytes(blockAt(2));
  REQUIRE(::pread(memoryFile(), bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
  std::mt19937 random(1);
  int made = 0;
  for (int round = 0; round < 200; ++round) {
    auto broken = bytes;
    for (int i = 0; i < 200; ++i) {
      // Half of the damage goes into the heads.
      const std::size_t end = i % 2 == 0 ? 2 * kPage : broken.size();
      broken[(round % 4 == 0 ? 0 : 24) + random() % (end - 24)] = static_cast<std::byte>(random());
    }
    broken.resize(round % 3 == 0 ? random() % broken.size() : broken.size());
    const base::UniqueFd file(::memfd_create("broken", MFD_CLOEXEC));
    REQUIRE(::write(file.get(), broken.data(), broken.size()) ==
            static_cast<ssize_t>(broken.size()));
    FileHead head;
    if (broken.size() < sizeof(head)) continue;
    std::memcpy(&head, broken.data(), sizeof(head));
    if (head.magic == kMagic && head.version == kVersion) ++made, dumpOf(file.get());
  }
  CHECK(made > 20);
  // Numbers of calls near the end of 64 bits are no endless loop.
  for (const std::uint64_t claimed :
       {~std::uint64_t{0}, ~std::uint64_t{63}, ~std::uint64_t{0} >> 1}) {
    auto broken = bytes;
    std::memcpy(&broken[blockAt(0) + offsetof(BlockHead, claimed)], &claimed, sizeof(claimed));
    const base::UniqueFd file(::memfd_create("broken", MFD_CLOEXEC));
    REQUIRE(::write(file.get(), broken.data(), broken.size()) ==
            static_cast<ssize_t>(broken.size()));
    CHECK(dumpOf(file.get()).size() >= 2);
  }
  const base::UniqueFd none(::memfd_create("none", MFD_CLOEXEC));
  CHECK(writeDump(none.get(), none.get(), "request", 'R') == EPROTO);
  CHECK(writeDump(-1, none.get(), "request", 'R') == EPROTO);
}

// Proves: readers of another version refuse the memory, whatever else is in it.
TEST_CASE("a memory file of another version, or of another kind, makes no dump") {
  Recorder recorder({7, 0x7000, 0, 1, "self"});
  std::vector<std::byte> bytes(blockAt(2));
  REQUIRE(::pread(memoryFile(), bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
  const auto statusOf = [&](std::size_t field, int change) {
    auto other = bytes;
    other[field] = static_cast<std::byte>(static_cast<int>(other[field]) + change);
    const base::UniqueFd file(::memfd_create("other", MFD_CLOEXEC));
    REQUIRE(::write(file.get(), other.data(), other.size()) == static_cast<ssize_t>(other.size()));
    const base::UniqueFd to(::memfd_create("dump", MFD_CLOEXEC));
    return writeDump(file.get(), to.get(), "request", 'R');
  };
  CHECK(statusOf(offsetof(FileHead, version), 0) == 0);
  CHECK(statusOf(offsetof(FileHead, version), 1) == EPROTO);
  CHECK(statusOf(offsetof(FileHead, version), -1) == EPROTO);
  CHECK(statusOf(offsetof(FileHead, magic), 1) == EPROTO);
}

TEST_CASE("a full disk is an error of the dump, not of the program") {
  Recorder recorder({7, 0x8000, 0, 1, "self"});
  const base::UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  CHECK(writeDump(memoryFile(), full.get(), "request", 'R') == ENOSPC);
}

TEST_CASE("a forked child makes no dump, and its end changes nothing in the parent's record") {
  auto recorder = std::make_unique<Recorder>(Identity{7, 0x9000, 0, 1, "self"});
  recorder->begin({kShape.packed(), 1}, 1, true).end(false);
  const pid_t child = ::fork();
  if (child == 0) {
    const int status = writeDump(memoryFile(), STDERR_FILENO, "request", 'R') == EPROTO ? 0 : 1;
    recorder.reset();
    ::_exit(status);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(linesOf(0x9000)[0]["open"] == true);
}

TEST_CASE("a limit of file sizes leaves as many records as it allows") {
  Recorder recorder({7, 0x9100, 0, 1, "self"});
  const pid_t child = ::fork(); // which makes a file of its own
  if (child == 0) {
    const rlimit limit{blockAt(300), blockAt(300)};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Recorder own({7, 0x9101, 0, 1, "self"});
    FileHead head;
    const bool read = ::pread(memoryFile(), &head, sizeof(head), 0) == sizeof(head);
    ::_exit(read && head.blocks == 256 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("calls of a communicator are recorded with their order, arguments and ends") {
  Options options;
  options.algorithm = "oneshot";
  auto ranks = Communicator::createAll(2, options);
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads.emplace_back([&ranks, r] {
      std::vector<float> data(100);
      const int peer = 1 - static_cast<int>(r);
      ranks[r].allReduce(data.data(), data.data(), 100, DataType::float32, ReduceOp::max);
      if (r == 0) ranks[r].send(data.data(), 7, DataType::float32, peer);
      else ranks[r].recv(data.data(), 7, DataType::float32, peer);
      ranks[r].barrierAsync().wait();
    });
  threads.clear();
  int ours = 0;
  std::string section;
  for (const json& line : dumpOf(memoryFile())) {
    if (line.contains("communicator")) {
      section = line["size"] == 2 && line["open"] == true ? line["rank"].dump() : "";
      if (!section.empty())
        CHECK(line["totals"] == json{{{"collective", "allreduce"}, {"calls", 1}, {"bytes", 400}},
                                     {{"collective", "barrier"}, {"calls", 1}, {"bytes", 0}},
                                     {{"collective", "sendrecv"}, {"calls", 1}, {"bytes", 28}}});
    }
    if (section.empty() || !line.contains("state")) continue;
    ++ours;
    CHECK(line["state"] == "completed");
    if (line["record_id"] == 1) {
      CHECK(line["profiling_name"] == "rondo:AllReduce");
      CHECK(line["count"] == 100);
      CHECK(line["op"] == "max");
      CHECK(line["algorithm"] == "oneshot");
    }
    if (line["record_id"] == 2) CHECK(line["peer"] == (section == "0" ? 1 : 0));
    if (line["record_id"] == 3) CHECK(line["collective_seq_id"] == 2);
  }
  CHECK(ours == 6);
}

TEST_CASE("a failure names the culprit by its rank in the communicator and by that in the job") {
  auto ranks = Communicator::createAll(3);
  std::vector<std::optional<Communicator>> pairs(3);
  std::vector<std::jthread> threads;
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&ranks, &pairs, r] {
      const auto at = static_cast<std::size_t>(r);
      pairs[at] = ranks[at].split(r == 0 ? 0 : 1, r);
    });
  threads.clear();
  pairs[2]->abort("a reason");
  int failures = 0;
  for (const json& line : dumpOf(memoryFile())) {
    if (!line.contains("failure") || line["open"] != true) continue;
    ++failures;
    CHECK(line["size"] == 2);
    CHECK(line["failure"]["culprit"] == 1);
    CHECK(line["failure"]["culprit_in_job"] == 2);
  }
  CHECK(failures == 2);
}

TEST_CASE("of the ranks of a process, the last that listens makes the dump of a failure") {
  const Rendezvous group = Rendezvous::inProcess(3);
  std::vector<std::unique_ptr<bootstrap::Session>> sessions(3);
  std::vector<std::jthread> threads;
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&sessions, &group, r] {
      sessions[static_cast<std::size_t>(r)] = bootstrap::Session::open(group.as(r), {});
    });
  threads.clear();
  std::vector<bool> told; // rank 2 has closed
  for (std::size_t r = 0; r < 2; ++r)
    sessions[r]->progress().failed.set(
        [&told](const bootstrap::Failure&, bool last) { told.push_back(last); });
  sessions[0]->fail({ErrorCode::aborted, "a failure", 0});
  CHECK(told == std::vector<bool>{false, true});
  for (std::size_t r = 0; r < 2; ++r) sessions[r]->progress().failed.set(nullptr);
}

TEST_CASE("a folder's name that is too long is an error of the options") {
  Options options;
  options.dump_folder = std::string(4000, 'x');
  CHECK_THROWS_AS(options.validate(), Error);
}

} // namespace
} // namespace rondo::test
