// Proves: looking through /proc succeeds while processes end.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "support/test.h"
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

} // namespace
} // namespace rondo::test
