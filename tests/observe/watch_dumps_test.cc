// Proves: a damaged or hostile dump of another host hides no other dump from the watch, a clock
// that is set back does not freeze the rates, and the command that prints dumps ends with the
// watch.
#include <unistd.h>

#include <string>

#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/watch_remote.h"

namespace rondo::test {
namespace {

/// Shell code: a folder of its own, with a script "feed" of these lines.
std::string withFeed(const TemporaryFolder& folder, const std::string& lines) {
  const std::string job = folder.file("job");
  return "mkdir " + job + "\ncd " + job + "\ncat >feed <<'END'\n" + lines + "END\n";
}

/// Shell function: prints the dump of a rank with one communicator. Its arguments are the rank, the
/// time in ns, the number of calls, and the number of lines that the dump claims to have.
const std::string kDump = R"(dump() {
  printf '{"rondo_dump":2,"host":"far","pid":%s,"began_ns":1,"reason":"request","state":"R",' $1
  printf '"time_ns":%s}\n{"communicator":"00000000000000aa","job":"00000000000000bb",' $2
  printf '"rank":%s,"size":2,"open":true,"transports":"tcp","entered":%s,"calls":%s,' $1 $3 $3
  printf '"totals":[{"collective":"allreduce","calls":%s,"bytes":%s}],"waits":[]}\n' $3 $3
  printf '{"end":true,"lines":%s}\n' $4
}
)";

TEST_CASE("watch: a dump whose lines are not all there does not hide the next dump", "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell(withFeed(folder, kDump + "dump 0 1000 5 4; dump 1 1000 5 3; exec sleep 100\n") +
                "$RONDO watch --once --json --job 00000000000000bb --from 'sh ./feed'",
            100);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.find("lines are missing") != std::string::npos);
  CHECK(outcome.out.find("\"rank\":1,\"host\":\"far\"") != std::string::npos);
}

TEST_CASE("watch: when the clock is set back by an hour, an idle rank's rate becomes 0",
          "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome = shell(
      withFeed(folder, kDump + "TIME=1000000000000000000; CALLS=0\n"
                               "for I in $(seq 1000); do\n"
                               "  if [ $I -le 20 ]; then CALLS=$((CALLS + 1000)); fi\n"
                               "  if [ $I = 21 ]; then TIME=$((TIME - 3600000000000)); fi\n"
                               "  TIME=$((TIME + 100000000)); dump 0 $TIME $CALLS 3; sleep 0.1\n"
                               "done\n") +
          "$RONDO watch --json --interval 0.2 --job 00000000000000bb --from 'sh ./feed' >out &\n"
          "WATCH=$!\n"
          "for TRY in $(seq 600); do\n"
          "  grep -q '\"calls_per_second\":[1-9]' out && tail -n 1 out |\n"
          "    grep -q '\"calls_per_second\":0' && echo idle && break\n"
          "  sleep 0.1\ndone\nkill $WATCH; wait",
      200);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.find("idle") != std::string::npos);
}

TEST_CASE("watch: a process that calls exec() leaves its job, and its new job is shown",
          "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell(withFeed(folder, "") + RONDO_TEST_PROGRAMS
                "/program_exec_again >out &\nJOB=$!\n"
                "await() { for TRY in $(seq 600); do eval \"$1\" && break; sleep 0.1; done; }\n"
                "await 'grep -q ready out'\n"
                "$RONDO watch --json --interval 0.2 $JOB >watched &\nWATCH=$!\n"
                "await 'grep -q running watched'\ntouch go\n"
                "FIRST=$(grep -o '\"job\":\"[0-9a-f]*\"' watched | head -n 1)\n"
                "await 'tail -n 1 watched | grep -v $FIRST | grep running'\n"
                "kill $WATCH $JOB; wait",
            300);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.find("running") != std::string::npos);
}

TEST_CASE("watch: nested arrays where a number or name should be hide no other dump", "[command]") {
  const TemporaryFolder folder;
  const std::string print =
      "python3 -c 'import sys; n = int(sys.argv[2])\n"
      "print(sys.argv[1].replace(\"@\", \"[\" * n + \"]\" * n))' '";
  const std::string end = "\necho '{\"end\":true,\"lines\":2}'\n";
  const Outcome outcome = shell(
      withFeed(folder, kDump + print + "{\"rondo_dump\":2,\"host\":@,\"pid\":1}' 1000000" + end +
                           print + "{\"rondo_dump\":2,\"host\":\"h\",\"pid\":@}' 30000" + end +
                           print + "{\"rondo_dump\":@,\"host\":\"h\",\"pid\":1}' 30000" + end +
                           "dump 1 1000 5 3; exec sleep 100\n") +
          "$RONDO watch --once --json --job 00000000000000bb --from 'sh ./feed'",
      100);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.find("\"rank\":1,\"host\":\"far\"") != std::string::npos);
}

TEST_CASE("watch: of what a command prints at most 64 MiB are kept, which it says") {
  tools::DumpStream stream(
      "exec python3 -c 'import sys\n"
      "while True:\n"
      "  for pid in range(80):\n"
      "    sys.stdout.write(\"{\\\"host\\\":\\\"h\\\",\\\"pid\\\":%d}\\n\" % pid)\n"
      "    sys.stdout.write((\"x\" * 1023 + \"\\n\") * 1024 + \"{\\\"end\\\":true}\\n\")'");
  bool told = false;
  for (int look = 0; look < 200 && !told; ++look) {
    for (int piece = 0; piece < 1000; ++piece) stream.awaitsFirst(), ::usleep(200); // reads
    CHECK(stream.latest().size() <= std::size_t{64} << 20);
    told = stream.trouble().find("more than 64 MiB") != std::string::npos;
  }
  CHECK(told);
}

TEST_CASE("watch: its commands end with it, however it ends", "[command]") {
  for (const std::string signal : {"TERM", "KILL"}) {
    INFO(signal);
    const TemporaryFolder folder;
    const Outcome outcome =
        shell(withFeed(folder, "sleep 1000 &\necho $! $$ >pids.new\nmv pids.new pids\nwait\n") +
              "$RONDO watch --json --job 1 --from 'sh ./feed' >out &\nWATCH=$!\n"
              "for TRY in $(seq 600); do [ -e pids ] && break; sleep 0.1; done\n"
              "kill -" +
              signal + " $WATCH\n" + untilGone("pids"));
    CHECK(outcome.out == "gone\n");
  }
}

TEST_CASE("watch --prometheus prints each warning once", "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("cd " + folder.file("") +
            "\n$RONDO watch --interval 0.1 --prometheus 0 --job 1 --from 'exit 3' \\\n"
            "  --from 'sleep 2; exit 4' >out 2>err &\nWATCH=$!\n"
            "for TRY in $(seq 600); do grep -q 'exit 4' err && break; sleep 0.1; done\n"
            "kill $WATCH; cat out err\n");
  INFO(outcome.out);
  CHECK(countOf(outcome.out, "warning: 'exit 3' has ended") == 1);
  CHECK(countOf(outcome.out, "warning: 'sleep 2; exit 4' has ended") == 1);
}

} // namespace
} // namespace rondo::test
