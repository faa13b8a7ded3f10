// `rondo run`, `rondo bench` and `rondo dump` where /proc is not mounted. Sanitizers cannot run
// there.
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

/// Shell code: runs $@ in a mount namespace in which /proc is not mounted; fails if this process
/// may not make one.
const std::string kWithoutProc =
    "WITHOUT_PROC='mount -t tmpfs none /proc && exec \"$@\"'\n"
    "without_proc() { unshare --mount sh -c \"$WITHOUT_PROC\" sh \"$@\"; }\n";

TEST_CASE("`rondo run` and `rondo bench` work where /proc is not mounted", "[release]") {
  if (shell(kWithoutProc + "without_proc test ! -e /proc/self").status != 0) {
    WARN("skipped: this process may not make a mount namespace");
    return;
  }
  const TemporaryFolder folder;
  const Outcome run = shell(kWithoutProc + "without_proc $RONDO run -p 2 -- sh -c 'echo hello'");
  CHECK(run.out == "hello\nhello\n");
  CHECK(run.status == 0);
  CHECK(run.err == "");
  // Found by its full path, by a relative path, and through PATH.
  const std::string bench = " bench allreduce -p 2 -n 1 -e 1K";
  for (const char* name : {"$RONDO", "./rondo", "rondo"}) {
    INFO(name);
    const Outcome outcome = shell(kWithoutProc + "cd $(dirname $RONDO)\nPATH=.:$PATH\n" +
                                  "without_proc " + name + bench);
    INFO(outcome.out << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.out.find("transport tcp") != std::string::npos);
  }
  const Outcome shm = shell(kWithoutProc + "without_proc $RONDO" + bench + " --transport shm");
  CHECK(shm.status == 3);
  CHECK(shm.err.find("shm is not used: it needs /proc") != std::string::npos);
  // Processes in other groups cannot be listed, but the ranks' own groups are still ended.
  const Outcome left = shell(
      "cd " + folder.file("") + "\n" + kSleeper + kWithoutProc +
      "without_proc $RONDO run -p 1 -- sh -c './sleeper pid & while [ ! -e pid ]; do sleep 0.02; "
      "done'\n" +
      untilGone("pid"));
  CHECK(left.out == "gone\n");
  const Outcome outside = shell(
      "cd " + folder.file("") + "\nrm -f pid\n" + kSleeper + kWithoutProc +
      "without_proc $RONDO run -p 1 -- sh -c 'setsid ./sleeper pid & while [ ! -e pid ]; do sleep "
      "0.02; done'\nkill $(cat pid)\n");
  CHECK(outside.err.find("/proc, which is not mounted") != std::string::npos);
}

TEST_CASE("`rondo dump` says that /proc is not mounted", "[release]") {
  if (shell(kWithoutProc + "without_proc test ! -e /proc/self").status != 0) {
    WARN("skipped: this process may not make a mount namespace");
    return;
  }
  const Outcome outcome = shell(kWithoutProc + "without_proc $RONDO dump all -o -");
  CHECK(outcome.status == 3);
  CHECK(outcome.err.find("is /proc mounted here?") != std::string::npos);
}

} // namespace
} // namespace rondo::test
