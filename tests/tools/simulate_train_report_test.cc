// Tests the times of passes that `rondo simulate train` reads from reports of `rondo train`.
#include <fstream>
#include <string>

#include "rondo/error.h"
#include "support/caught.h"
#include "support/temporary_folder.h"
#include "support/test.h"
#include "tools/simulate_train_model.h"

namespace rondo::test {

using namespace tools;

// Proves: a report that is cut anywhere, of another version, or without micro-batches is refused
// with file and line.
TEST_CASE("simulate train: a damaged or foreign report is refused with its line", "[train]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("report.json");
  const std::string good =
      "{\n\"version\": 1,\n"
      "\"options\": {\"model\": \"mlp\", \"accumulate\": 1, \"batch\": 32},\n"
      "\"ranks\": 1,\n"
      "\"step_parts_ms\": {\"data\": 1, \"forward\": 2, \"backward\": 4, \"optimizer\": 1}\n}\n";
  const auto refusal = [&](const std::string& text) -> std::string {
    std::ofstream(file, std::ios::trunc) << text;
    StepModel model = stepModel("mlp", "", 32);
    const Caught error = caught([&] { timeByReport(model, file); });
    CHECK((!error.threw || error.code == ErrorCode::data));
    return error.threw ? error.text : "it was read";
  };
  CHECK(refusal(good) == "it was read");
  for (std::size_t bytes = 0; bytes + 2 < good.size(); ++bytes) {
    INFO(good.substr(0, bytes));
    CHECK(refusal(good.substr(0, bytes)).starts_with(file + ":"));
  }
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return refusal(text.replace(text.find(from), from.size(), to));
  };
  CHECK(changed("\"version\": 1", "\"version\": 2") == file + ":2: version is 2, but must be 1");
  CHECK(changed("\"version\": 1,", "").find("\"version\" is missing") != std::string::npos);
  CHECK(changed("\"accumulate\": 1", "\"accumulate\": 0") == file + ":3: accumulate is below 1");
  CHECK(changed("\"batch\": 32", "\"batch\": 31") == file + ":3: batch is 31, but must be 32");
  CHECK(changed("\"forward\": 2", "\"forward\": -2") ==
        file + ":5: \"forward\" must not be negative");
  CHECK(changed("\"forward\": 2", "\"forward\": 1e999").starts_with(file + ":5: "));
}

TEST_CASE("simulate train: passes of ranks that compute at the same time come from strategy local",
          "[train]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("report.json");
  const auto write = [&](const std::string& strategy, int batch) {
    std::ofstream(file, std::ios::trunc)
        << "{\n\"version\": 1,\n\"options\": {\"model\": \"mlp\", \"accumulate\": 1, "
           "\"strategy\": \"" +
               strategy + "\", \"batch\": " + std::to_string(batch) +
               "},\n\"ranks\": 2,\n\"step_parts_ms\": {\"data\": 1, \"forward\": 2, "
               "\"backward\": 4, \"optimizer\": 1}\n}\n";
  };
  StepModel model = stepModel("mlp", "", 32);
  write("local", 64);
  timeByReport(model, file);
  CHECK(model.forward() == Approx(2e-3));
  CHECK(model.backward() == Approx(4e-3));
  CHECK(model.source == "from " + file + ", 2 ranks at the same time");
  const auto refusal = [&] { return caught([&] { timeByReport(model, file); }).text; };
  write("local", 32);
  CHECK(refusal() == file + ":3: batch is 32, but must be 64");
  write("ddp", 64); // its backward pass contains communication
  CHECK(refusal() == file + ":4: ranks is 2, but must be 1");
}

} // namespace rondo::test
