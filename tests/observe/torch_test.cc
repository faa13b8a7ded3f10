// Dumps for PyTorch's flight-recorder analyser, and reports on dumps of its recorder.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

using nlohmann::json;

/// Shell code: a job of 4 ranks that hangs with this fault on rank 2, and its dumps in folder
/// dumps.
std::string hang(const std::string& folder, const std::string& fault) {
  return "cd " + folder + "\nRONDO_HEARTBEAT=60 RONDO_DUMP=dumps $RONDO run -p 4 -- " +
         RONDO_TEST_PROGRAMS "/program_recorded " + fault +
         " 2 >out 2>err &\nJOB=$!\n"
         "for TRY in $(seq 600); do [ $(grep -c ready out) = 4 ] && break; sleep 0.1; done\n"
         "sleep 2.5\n$RONDO dump $(sed -n 's/^ready . //p' out) -o dumps >dumped\nkill $JOB; "
         "wait\n";
}

TEST_CASE("torch: a report writes files that Python's pickle reads, in the recorder's form") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell(hang(folder.file(""), "skip") +
            "$RONDO report dumps --torch traces\nls traces\n"
            "python3 - <<'END'\nimport json, pickle\n"
            "for rank in range(4):\n"
            "    print('JSON', json.dumps(pickle.load(open(f'traces/rondo_trace_{rank}', "
            "'rb'))))\nEND\n");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.find("4 files; to read them: torchfrtrace traces --prefix rondo_trace_") !=
        std::string::npos);
  std::vector<json> ranks;
  for (const std::string& line : linesOf(outcome.out))
    if (line.starts_with("JSON ")) ranks.push_back(json::parse(line.substr(5)));
  REQUIRE(ranks.size() == 4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const json& entries = ranks[rank]["entries"];
    REQUIRE(entries.size() == (rank == 2 ? 100 : 101));
    CHECK(entries[0]["record_id"] == 0);
    CHECK(entries[99]["profiling_name"] == "nccl:all_reduce");
    CHECK(entries[99]["collective_seq_id"] == 100);
    CHECK(entries[99]["input_sizes"] == json{{1000}});
    CHECK(entries[99]["input_dtypes"] == json{"Float"});
    CHECK(entries[99]["state"] == "completed");
    REQUIRE(ranks[rank]["pg_config"].size() == 1);
    CHECK(ranks[rank]["pg_config"].begin().value()["ranks"] == "[0,1,2,3]");
  }
  CHECK(ranks[0]["entries"][100]["state"] == "started");
}

/// A dump as PyTorch 2.x writes it, with all-reduces of which the last one has not ended.
json recorded(int calls, int count = 1000) {
  json entries = json::array();
  for (int i = 1; i <= calls; ++i)
    entries.push_back({{"record_id", i},
                       {"process_group", {"0", "default_pg"}},
                       {"collective_seq_id", i},
                       {"p2p_seq_id", 0},
                       {"op_id", i},
                       {"profiling_name", "nccl:all_reduce"},
                       {"time_created_ns", 1'700'000'000'000'000'000 + i},
                       {"input_sizes", {{10, i == calls ? count / 10 : 100}}},
                       {"input_dtypes", {"Float"}},
                       {"output_sizes", {{10, i == calls ? count / 10 : 100}}},
                       {"output_dtypes", {"Float"}},
                       {"state", i == calls ? "scheduled" : "completed"},
                       {"retired", i != calls},
                       {"is_p2p", false}});
  return {{"version", "2.10"},
          {"pg_config", {{"0", {{"name", "0"}, {"desc", "default_pg"}, {"ranks", "[0, 1, 2]"}}}}},
          {"entries", entries}};
}

TEST_CASE("torch: a report on dumps of PyTorch's recorder names the late and the different rank") {
  const TemporaryFolder folder;
  const auto write = [&](int rank, const json& dump) {
    std::ofstream(folder.file("trace_" + std::to_string(rank) + ".json")) << dump;
  };
  const auto report = [&] { return shell("$RONDO report " + folder.file("")).out; };
  json early = recorded(5);
  early["entries"][4]["state"] = "completed";
  write(0, recorded(6)), write(1, early), write(2, recorded(6));
  std::string text = report();
  INFO(text);
  CHECK(text.find("CULPRIT: rank 1 never entered AllReduce #6") != std::string::npos);
  CHECK(countOf(text, "CULPRIT") == 1);
  write(1, recorded(6, 500));
  text = report();
  CHECK(text.find("CULPRIT: rank 1 calls AllReduce #6 (500 float)") != std::string::npos);
  // Files that cannot be read are refused by name; for a pickle the text says how to convert it.
  std::ofstream(folder.file("it's_0")) << "\x80\x02}.";
  std::ofstream(folder.file("page.json")) << "{}";
  std::ofstream(folder.file("cut7.json")) << recorded(6).dump().substr(0, 99);
  text = report();
  const std::string pickle =
      "refused: it's_0: a pickle of PyTorch's flight recorder; convert it by: ";
  const std::size_t at = text.find(pickle + "python3 -c");
  REQUIRE(at != std::string::npos);
  const std::size_t command = at + pickle.size();
  CHECK(shell(text.substr(command, text.find('\n', command) - command)).status == 0);
  CHECK(json::parse(readFile(folder.file("it's_0.json"))).empty());
  CHECK(text.find("refused: cut7.json: no dump of PyTorch's flight recorder") != std::string::npos);
  CHECK(text.find("refused: page.json: no dump") != std::string::npos);
}

} // namespace
} // namespace rondo::test
