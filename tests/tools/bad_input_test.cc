// Proves that the command reports what it cannot do, and loses no data: options that exclude each
// other or have no meaning, misspelt names, outputs that cannot be written or are other files of
// the command, files of other programs.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

TEST_CASE("options that exclude each other or are ignored, and wrong values, are refused",
          "[command]") {
  const std::pair<const char*, const char*> cases[] = {
      {"plan --import none.xml --check", "excludes"},
      {"plan --check --explain", "excludes"},
      {"report none --torch there --json", "excludes"},
      {"watch --interval nan", "'nan' is no number"},
      {"tune --seconds nan", "'nan' is no number"},
      {"watch --prometheus 99999", "65535"},
      {"plan --algorithm ring,tree --dot x.dot", "given: 2 algorithms, 1 sizes"},
      {"plan --algorithm ring --bytes 8,1M --goal x.goal", "given: 1 algorithms, 2 sizes"},
      {"plan --algorithm ring --check --dot x.dot", "excludes"},
      {"simulate broadcast train --tflops 1", "`rondo simulate train` takes no collective"},
      {"simulate -p 4 train --tflops 1", "`rondo simulate train` takes no --ranks"},
      {"bench allreduce --output_file ''", "--output_file: the value is empty"},
      {"topo --svg ''", "--svg: the value is empty"},
      {"dump 1 --last -1", "'-1' is no whole number from 0 to 18446744073709551615"},
      {"dump 1 --last 99999999999999999999", "is no whole number from 0 to"},
      {"bench allreduce -f -1", "'-1' is no whole number from 2 to 1048576"},
      {"bench allreduce -p 2 --algorithm ring --deterministic", "reduces in rank order"},
      {"bench allreduce -e 16T -i 1", "more than 1000000 sizes"},
      {"doctor --svg links.svg", "--svg draws the links between the ranks of a job"},
  };
  for (const auto& [arguments, text] : cases) {
    INFO("rondo " << arguments);
    const Outcome outcome = shell(std::string("$RONDO ") + arguments, 60);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(text) != std::string::npos);
  }
}

TEST_CASE("an unknown name is refused with the nearest known one", "[command]") {
  const std::pair<const char*, const char*> cases[] = {
      {"benhc", "did you mean bench?"},
      {"bench alreduce", "did you mean allreduce?"},
      {"bench allreduce -d float,flaot16", "did you mean float16?"},
      {"bench allreduce -o summ", "did you mean sum?"},
      {"bench allreduce --algorithm rnig", "did you mean ring?"},
      {"plan --algorithm 'hierarchical(rnig,tree)'", "did you mean ring?"},
      {"simulate --algorithm tree,dirct", "did you mean direct?"},
  };
  for (const auto& [arguments, text] : cases) {
    INFO("rondo " << arguments);
    const Outcome outcome = shell(std::string("$RONDO ") + arguments, 60);
    CHECK(outcome.status == 2);
    CHECK(countOf(outcome.err, "did you mean") == 1);
    CHECK(outcome.err.find(text) != std::string::npos);
  }
}

// Proves: two names of one file are refused, also if they are relative, absolute or links. Two
// outputs may both be /dev/null.
TEST_CASE("an output is no other file of the command", "[command]") {
  const TemporaryFolder folder;
  const std::string begin = "cd " + folder.file("") + " && ";
  REQUIRE(shell(begin + "$RONDO plan --algorithm ring -p 2 --msccl ring.xml && ln -s ring.xml soft "
                        "&& ln ring.xml hard && ln -s new newer && mkdir sub")
              .status == 0);
  const std::string content = readFile(folder.file("ring.xml"));
  for (const std::string arguments :
       {"plan --algorithm ring --dot ring.xml --goal ./ring.xml",
        "plan --algorithm ring --dot ring.xml --goal sub/../ring.xml",
        "plan --algorithm ring --dot soft --goal hard",
        "plan --algorithm ring --dot new --goal newer",
        "plan --algorithm ring --dot new --goal $PWD/new", "bench allreduce -J new --rules ./new",
        "tune --seconds 0.1 -o new --plot ./new", "simulate --import ring.xml --trace hard",
        "topo --file ring.xml --svg ./ring.xml"}) {
    INFO("rondo " << arguments);
    const Outcome outcome = shell(begin + "$RONDO " + arguments, 60);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find("name the same file") != std::string::npos);
    CHECK(readFile(folder.file("ring.xml")) == content);
    CHECK(!std::filesystem::exists(folder.file("new")));
  }
  CHECK(shell("$RONDO plan --algorithm ring --dot /dev/null --goal /dev/null").status == 0);
}

TEST_CASE("report --trace: the output is no trace of a rank, and pipes are written", "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome = shell(
      "cd " + folder.file("") +
          "\nRONDO_TRACE=traces $RONDO bench allreduce -p 2 -e 8 -n 1 >log\n" +
          "set -- traces/*\ncp $1 kept\n$RONDO report --trace traces -o ./$1\necho status $?\n"
          "cmp $1 kept && echo kept\n"
          "mkfifo pipe\ncat pipe >read &\n$RONDO report --trace traces -o pipe >log\n"
          "[ -p pipe ] && echo pipe\nwait\n"
          "$RONDO report --trace traces -o /dev/stdout | cat >whole\n",
      120);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out == "status 2\nkept\npipe\n");
  CHECK(outcome.err.find("is a rank's trace") != std::string::npos);
  for (const char* file : {"read", "whole"}) {
    const std::string text = readFile(folder.file(file));
    CHECK(text.starts_with("{\"displayTimeUnit\""));
    CHECK(text.ends_with("]}\n"));
  }
}

TEST_CASE("report: beside a damaged dump the others are shown, and the status is 1", "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome = shell(
      "cd " + folder.file("") +
          "\n$RONDO bench allreduce -p 2 --threads -e 8 -n 100000000 -c 0 >log 2>&1 &\nJOB=$!\n"
          "for TRY in $(seq 100); do\n  $RONDO dump $JOB -o dumps >log2 2>&1 && "
          "$RONDO report dumps >page && break\n  sleep 0.1\ndone\n"
          "kill $JOB\necho '{' >dumps/cut.jsonl\n$RONDO report dumps\necho status $?\n",
      120);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.find("nothing is wrong") != std::string::npos);
  CHECK(outcome.out.find("refused: cut.jsonl") != std::string::npos);
  CHECK(outcome.out.ends_with("status 1\n"));
}

TEST_CASE("tune: files that cannot be written are refused before anything is measured",
          "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome = shell("cd " + folder.file("") +
                                    "\necho old >kept\n"
                                    "$RONDO tune --seconds 600 -o no/file\necho status $?\n"
                                    "$RONDO tune --seconds 600 -o kept --plot no/file\n"
                                    "echo status $?\ncat kept\n",
                                30);
  INFO(outcome.err);
  CHECK(outcome.out == "status 3\nstatus 3\nold\n");
  CHECK(countOf(outcome.err, "cannot write 'no/file'") == 2);
}

TEST_CASE("doctor --svg: a file that cannot be written is no fault of the network", "[command]") {
  const Outcome outcome = shell("$RONDO run -p 2 -- $RONDO doctor --svg /nowhere/links.svg");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 3);
  CHECK(outcome.out.find("error: join") == std::string::npos);
  CHECK(countOf(outcome.err, "cannot write '/nowhere/links.svg': No such file") == 1);
}

TEST_CASE("bench --algorithm all leaves out what deterministic mode forbids", "[command]") {
  const Outcome outcome =
      shell("$RONDO bench allreduce -p 3 --algorithm all --deterministic -e 8 -n 1");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(countOf(outcome.out, "# not measured, since they do not reduce in rank order") == 1);
  CHECK(countOf(outcome.out, "# algorithm: ring") == 0);
  CHECK(countOf(outcome.out, "# algorithm: ") > 0);
}

// Sanitizers end a program that asks for so much.
TEST_CASE("bench: an error names the buffer for which memory ran out", "[command][release]") {
  const Outcome outcome = shell("$RONDO bench allreduce -p 1 -b 1000000T -e 1000000T -n 1");
  INFO(outcome.err);
  CHECK(outcome.status == 3);
  CHECK(outcome.err.find("memory ran out for a buffer of 1099511627776") != std::string::npos);
}

TEST_CASE("output that cannot be written is an error", "[command]") {
  if (!std::filesystem::is_character_file("/dev/full")) {
    WARN("skipped: there is no /dev/full");
    return;
  }
  for (const char* arguments :
       {"plan allreduce -p 2", "--version", "plan --help", "bench allreduce -p 2 -b 8 -e 8 -n 1",
        "topo", "run -p 2 --tag -- echo lost"}) {
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
TEST_CASE("train: wrong values, and outputs that are one file, are refused", "[command]") {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"--seed -1", "'-1' is no whole number from 0 to 18446744073709551615"},
      {"--seed 99999999999999999999", "is no whole number from 0 to"},
      {"--limit -1", "'-1' is no whole number from 0 to"},
      {"--slow 0.9:2", "the rank must be a whole number"},
      {"--slow nan:2", "the rank must be a whole number"},
      {"--json ''", "--json: the value is empty"},
      {"--json a --metrics ./a", "name the same file: "},
      {"--trace soft --metrics a", "name the same file: "},
      {"--checkpoint a --json soft", "name the same file: "},
      {"--sweep given --json ./given", "name the same file: "},
  };
  std::ofstream(folder.file("given")) << "one: --lr 0.1\n";
  std::filesystem::create_symlink("a", folder.file("soft"));
  for (const auto& [arguments, text] : cases) {
    INFO("rondo train " << arguments);
    const Outcome outcome = shell("cd " + folder.file("") +
                                      " && $RONDO train --data synthetic:train=64,test=64 "
                                      "--batch 16 --steps 1 -p 1 " +
                                      arguments,
                                  120);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(text) != std::string::npos);
  }
}

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
