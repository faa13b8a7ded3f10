// Proves: looking through /proc succeeds while processes end, finds the ranks of other users for
// root, and is no error where there are no other processes.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "support/paths.h"
#include "support/test.h"
#include "tests/observe/hosts.h"
#include "tests/tools/shell.h"
#include "tools/dump_processes.h"
#include "tools/spawn_processes.h"

namespace rondo::test {
namespace {

/// Calls `look` with the id of a process, again and again until the process has ended.
template <class Look>
void lookUntilItEnds(const Look& look) {
  const pid_t process = ::fork();
  if (process == 0) {
    ::execl("/bin/true", "true", nullptr);
    ::_exit(1);
  }
  std::atomic<bool> ended = false;
  const std::jthread waiting([&] {
    ::waitpid(process, nullptr, 0);
    ended = true;
  });
  do look(process);
  while (!ended);
}

TEST_CASE("processes: one that ends while its state is read counts as ended") {
  for (int i = 0; i < 100; ++i)
    CHECK_NOTHROW(lookUntilItEnds([](pid_t process) { tools::stateOf(std::to_string(process)); }));
}

TEST_CASE("processes: a search for descendants skips one that ends during the search") {
  for (int i = 0; i < 100; ++i) CHECK_NOTHROW(lookUntilItEnds([](pid_t) { tools::descendants(); }));
}

TEST_CASE("processes: a user without other processes has no record", "[command]") {
  const std::string space = "unshare --mount --pid --fork --mount-proc ";
  if (shell(space + "true").status != 0) {
    WARN("not run: it needs root, for namespaces");
    return;
  }
  const Outcome outcome = shell(space + "$RONDO dump all -o -\necho status $?\n" + space +
                                "$RONDO watch --once\necho status $?\n");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.find("status 1\n") == 0);
  CHECK(outcome.out.ends_with("status 3\n"));
  CHECK(outcome.err == "rondo: no process of this user has a record of calls\n");
}

TEST_CASE("processes: root watches the whole job of another user by one of its processes",
          "[command]") {
  const std::string other = "setpriv --reuid 65534 --clear-groups ";
  if (::geteuid() != 0 || shell(other + "test -x $RONDO").status != 0) {
    WARN("not run: it needs root, and a build that another user may run");
    return;
  }
  const auto out =
      linesBeside("env RONDO_HEARTBEAT=60 " + other +
                      "$RONDO run -p 2 -- " RONDO_TEST_PROGRAMS "/program_recorded none 2 2",
                  2, "set -- $PIDS\n$RONDO watch --once --json $1");
  REQUIRE(out.size() == 1);
  INFO(out[0]);
  CHECK(countOf(out[0], "\"state\":\"running\"") == 2);
}

} // namespace
} // namespace rondo::test
