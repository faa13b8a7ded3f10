// Tests the files that a run writes (metrics, trace, page), and what happens if it cannot write
// them.
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "support/data_files.h"
#include "support/runs.h"
#include "support/test.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

std::string textOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t occurrences(const std::string& text, const std::string& piece) {
  std::size_t count = 0;
  for (auto at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++count;
  return count;
}

} // namespace

TEST_CASE("metrics have each step and epoch once, also in a resumed run") {
  TemporaryFolder folder;
  TrainOptions options = smallRun();
  options.files.checkpoint = folder.file("checkpoint");
  options.files.metrics = folder.file("metrics");
  options.steps = 4;
  trainAll(makeRanks(2), options);
  const std::string first = textOf(options.files.metrics);
  REQUIRE(occurrences(first, "\"kind\":\"step\"") == 4);
  REQUIRE(occurrences(first, "\"kind\":\"epoch\"") == 1);
  options.steps = 6;
  options.files.resume = true;
  trainAll(makeRanks(2), options);
  const std::string both = textOf(options.files.metrics);
  REQUIRE(both.starts_with(first));
  REQUIRE(occurrences(both, "\"kind\":\"step\"") == 6);
  REQUIRE(occurrences(both, "\"kind\":\"epoch\"") == 2);
  for (int number = 1; number <= 6; ++number)
    REQUIRE(occurrences(both, "\"kind\":\"step\",\"number\":" + std::to_string(number) + ",") == 1);
}

TEST_CASE("a resumed run repairs the metrics of a killed one: each step once, whole lines") {
  TemporaryFolder folder;
  TrainOptions options = smallRun();
  options.files.checkpoint = folder.file("checkpoint");
  options.files.metrics = folder.file("metrics");
  options.files.checkpoint_every = 4;
  options.steps = 5;
  Bytes checkpoint;
  std::string metrics;
  trainAll(makeRanks(2), options, [&](const TrainProgress& progress) {
    if (progress.total_step != 4) return;
    checkpoint = readRaw(options.files.checkpoint);
    metrics = textOf(options.files.metrics);
  });
  REQUIRE(occurrences(metrics, "\"kind\":\"step\"") == 4);
  // What the run may have written after the checkpoint before it was killed, in part or completely.
  const std::string all = textOf(options.files.metrics);
  REQUIRE(occurrences(all, "\"kind\":\"step\"") == 5);
  options.files.resume = true;
  options.steps = 6;
  for (std::size_t length = metrics.size(); length <= all.size(); length += 13) {
    writeRaw(options.files.metrics,
             Bytes(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length)));
    writeRaw(options.files.checkpoint, checkpoint);
    trainAll(makeRanks(2), options);
    const std::string whole = textOf(options.files.metrics);
    INFO(length << ": " << whole);
    REQUIRE(whole.starts_with(metrics));
    REQUIRE(occurrences(whole, "\n") == 8); // 6 steps and 2 epochs
    REQUIRE(occurrences(whole, "}\n{") == 7);
    for (int number = 1; number <= 6; ++number)
      REQUIRE(occurrences(whole, "\"step\",\"number\":" + std::to_string(number) + ",") == 1);
  }
}

TEST_CASE("the trace shows what every rank computes, and every bucket") {
  TemporaryFolder folder;
  TrainOptions options = smallRun();
  options.files.trace = folder.file("trace");
  options.files.report = folder.file("page");
  options.gradients.bucket_bytes = {0}; // one bucket per weight
  options.epochs = 3;
  options.accumulate = 2;
  trainAll(makeRanks(3), options);
  // Of 9 steps 7 are observed.
  const std::string trace = textOf(options.files.trace);
  for (const char* name : {"data", "forward", "backward"})
    REQUIRE(occurrences(trace, "\"name\":\"" + std::string(name) + "\"") == 7 * 3 * 2);
  REQUIRE(occurrences(trace, "\"name\":\"optimizer\"") == 7 * 3);
  for (int bucket = 0; bucket < 8; ++bucket)
    REQUIRE(occurrences(trace, "\"name\":\"bucket " + std::to_string(bucket) + "\"") == 7 * 3);
  const std::string page = textOf(folder.file("page/index.html"));
  REQUIRE(contains(page, "bucket 7"));
  REQUIRE(contains(page, "mlp, 3 ranks"));
}

TEST_CASE("the page lists each setting under a unique name") {
  TemporaryFolder folder;
  TrainOptions options = smallRun();
  options.files.report = folder.file("page");
  options.gradients.hook = "fp16";
  options.stragglers.slow = {{0, 1.01}, {1, 1.02}};
  trainAll(makeRanks(2), options);
  const std::string page = textOf(folder.file("page/index.html"));
  for (const char* row :
       {"<dt>bucket bytes, first</dt><dd>1048576<", "<dt>bucket bytes, others</dt><dd>26214400<",
        "<dt>hook bucket bytes, first</dt>", "<dt>slow, 2</dt><dd>1:1.02<"}) {
    INFO(row);
    REQUIRE(contains(page, row));
  }
  std::set<std::string> names;
  for (std::size_t at = page.find("<dt>"); at != std::string::npos;
       at = page.find("<dt>", at + 1)) {
    const std::string name = page.substr(at, page.find("</dt>", at) - at);
    INFO(name);
    REQUIRE(names.insert(name).second);
  }
}

TEST_CASE("the page of a run that ends within an epoch shows the accuracy that the run reports") {
  TemporaryFolder folder;
  TrainOptions options = smallRun();
  options.files.report = folder.file("page");
  options.steps = 5;
  const TrainReport report = trainAll(makeRanks(2), options);
  char shown[32];
  std::snprintf(shown, sizeof shown, "<b>%.2f %%</b>", 100 * report.test_accuracy);
  REQUIRE(report.epoch_accuracy.size() == 1);
  REQUIRE(report.epoch_accuracy[0] != report.test_accuracy);
  REQUIRE(contains(textOf(folder.file("page/index.html")), shown));
}

TEST_CASE("a run that is refused creates no file and changes none") {
  TemporaryFolder folder;
  const Bytes old = {'o', 'l', 'd', '\n'};
  const std::vector<std::function<void(TrainOptions&)>> changes = {
      [&](TrainOptions& o) { o.batch = -1; }, [&](TrainOptions& o) { o.data = folder.path(); },
      [&](TrainOptions& o) { o.files.resume = true; }, // there is no checkpoint
      [&](TrainOptions& o) { o.files.report = folder.file("metrics/page"); },
      [&](TrainOptions& o) { o.files.trace = folder.file("no/trace"); }};
  for (const auto& change : changes) {
    TrainOptions options = smallRun();
    options.files.metrics = folder.file("metrics");
    options.files.trace = folder.file("trace");
    options.files.report = folder.file("report");
    options.files.checkpoint = folder.file("checkpoint");
    for (const std::string& file : {options.files.metrics, options.files.checkpoint})
      writeRaw(file, old);
    change(options);
    auto ranks = makeRanks(2);
    thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    CHECK(readRaw(options.files.metrics) == old);
    CHECK(readRaw(options.files.checkpoint) == old);
    for (const char* file : {"trace", "report", "report/index.html"}) {
      INFO(file);
      CHECK(!std::filesystem::exists(folder.file(file)));
    }
  }
}

/// Returns names and contents of all files below a folder; links and folders by name only.
std::map<std::string, Bytes> everything(const std::string& folder) {
  std::map<std::string, Bytes> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const bool file = entry.is_regular_file() && !entry.is_symlink();
    all[entry.path()] = file ? readRaw(entry.path()) : Bytes();
  }
  return all;
}

TEST_CASE("a file that cannot be written is refused before the first step, and none is created") {
  TemporaryFolder folder;
  writeRaw(folder.file("file"), {1});
  std::filesystem::create_directory(folder.file("folder"));
  std::filesystem::create_directory(folder.file("run.new")); // the name of a new checkpoint
  std::filesystem::create_symlink("no/where", folder.file("link"));
  // A link to a file that does not exist yet.
  std::filesystem::create_symlink("target", folder.file("fine"));
  std::vector<std::tuple<std::string, std::string TrainOptions::Files::*, std::string>> cases = {
      {"checkpoint", &TrainOptions::Files::checkpoint, "run"},
      {"report", &TrainOptions::Files::report, "link/page"}};
  for (const auto& [name, option] : {std::pair("checkpoint", &TrainOptions::Files::checkpoint),
                                     {"metrics", &TrainOptions::Files::metrics},
                                     {"trace", &TrainOptions::Files::trace}})
    for (const char* file : {"no/run", "file/run", "folder", "link"})
      cases.emplace_back(name, option, file);
  for (const char* page : {"file", "file/page", "file/some/page"})
    cases.emplace_back("report", &TrainOptions::Files::report, page);
  const auto before = everything(folder.path());
  for (const auto& [name, option, file] : cases) {
    INFO(name << " " << file);
    TrainOptions options = smallRun();
    options.files.metrics = folder.file("fine");
    options.files.report = folder.file("new/report");
    options.files.*option = folder.file(file);
    auto ranks = makeRanks(2);
    std::atomic<int> steps = 0;
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) {
      train(comm, options, [&](const TrainProgress&) { ++steps; });
    });
    CHECK(steps == 0);
    CHECK(thrown.code == ErrorCode::system);
    CHECK(contains(thrown.text, name + " " + folder.file(file) + " could not be written: "));
    CHECK(everything(folder.path()) == before);
  }
}

TEST_CASE("metrics may go to a pipe: its reader gets every line") {
  TemporaryFolder folder;
  TrainOptions options = smallRun();
  options.files.metrics = folder.file("pipe");
  REQUIRE(::mkfifo(options.files.metrics.c_str(), 0600) == 0);
  std::string read;
  std::thread reader([&] { read = textOf(options.files.metrics); });
  const TrainReport report = trainAll(makeRanks(2), options);
  reader.join();
  REQUIRE(occurrences(read, "\"kind\":\"step\"") == static_cast<std::size_t>(report.steps));
}

TEST_CASE("a report that cannot be written is one error on all ranks") {
  TemporaryFolder folder;
  writeRaw(folder.file("file"), {1});
  const std::vector<std::function<void(TrainOptions&)>> changes = {
      [&](TrainOptions& o) { o.files.report = folder.file("file/page"); },
      [&](TrainOptions& o) { o.files.trace = folder.file("no/trace"); },
      [&](TrainOptions& o) { o.files.metrics = folder.file("no/metrics"); },
      [](TrainOptions& o) { o.files.metrics = "/dev/full"; },
      [](TrainOptions& o) { o.files.metrics = "/dev/full", o.steps = 2; },
      [](TrainOptions& o) { o.files.trace = "/dev/full"; }};
  for (const auto& change : changes) {
    TrainOptions options = smallRun();
    change(options);
    auto ranks = makeRanks(2);
    std::atomic<bool> trained = false;
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) {
      train(comm, options, [&](const TrainProgress&) { trained = true; });
    });
    INFO(thrown.text);
    REQUIRE(thrown.code == ErrorCode::system);
    REQUIRE(thrown.culprit == 0);
    // The others are found before the training.
    REQUIRE(trained == contains(thrown.text, "/dev/full"));
    REQUIRE(
        contains(thrown.text, options.files.report + options.files.trace + options.files.metrics));
  }
}

#endif

} // namespace rondo::test
