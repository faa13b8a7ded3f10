// Proves that the command reports what it cannot do, and loses no data: options that exclude each
// other or have no meaning, output that cannot be written, files of other programs.
#include <filesystem>
#include <string>
#include <utility>

#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

TEST_CASE("options that exclude each other, and values that are no number, are refused",
          "[command]") {
  const std::pair<const char*, const char*> cases[] = {
      {"plan --import none.xml --check", "excludes"},
      {"plan --check --explain", "excludes"},
      {"report none --torch there --json", "excludes"},
      {"watch --interval nan", "'nan' is no number"},
      {"tune --seconds nan", "'nan' is no number"},
      {"watch --prometheus 99999", "65535"},
  };
  for (const auto& [arguments, text] : cases) {
    INFO("rondo " << arguments);
    const Outcome outcome = shell(std::string("$RONDO ") + arguments, 60);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(text) != std::string::npos);
  }
}

TEST_CASE("output that cannot be written is an error", "[command]") {
  if (!std::filesystem::is_character_file("/dev/full")) {
    WARN("skipped: there is no /dev/full");
    return;
  }
  for (const char* arguments : {"plan allreduce -p 2", "--version", "plan --help",
                                "bench allreduce -p 2 -b 8 -e 8 -n 1", "topo"}) {
    INFO("rondo " << arguments);
    const Outcome outcome = shell(std::string("$RONDO ") + arguments + " >/dev/full", 60);
    CHECK(outcome.status == 3);
    CHECK(outcome.err.find("cannot write standard output") != std::string::npos);
  }
}

TEST_CASE("bench: RONDO_BIND counts if --bind is not given", "[command]") {
  const std::string bench = "RONDO_BIND=9999 $RONDO bench allreduce -p 2 -e 8 -n 1";
  CHECK(shell(bench, 60).status != 0);
  CHECK(shell(bench + " --bind none", 60).status == 0);
}

#ifdef RONDO_HAVE_DNNL
// Proves: the begin of a result, which a killed run has left, is removed, and no other text is.
TEST_CASE("train --results: a file that has no results is refused and stays", "[command]") {
  for (const std::string text : {"my notes", "{\"n"}) {
    INFO(text);
    const TemporaryFolder folder;
    const Outcome outcome =
        shell("cd " + folder.file("") + " && printf '%s' '" + text +
                  "' > results; $RONDO train --model mlp --data synthetic:train=256,test=64 "
                  "--steps 2 -p 2 --folds 2 --results results; echo status $?; cat results",
              200);
    const bool begun = text.front() == '{';
    CHECK((outcome.out.find("status 0\n{\"name\":") != std::string::npos) == begun);
    CHECK((outcome.out.find("my notes") != std::string::npos) == !begun);
  }
}
#endif

} // namespace rondo::test
