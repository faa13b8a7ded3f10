// `rondo doctor`: each planted fault is one line that names it and its remedy, and nothing else is.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::tools {
namespace {

struct Planted {
  const char* what;
  const char* before; ///< shell code that plants the fault
  const char* arguments;
  const char* finding;
  int status;
};

/// Runs the command after the code, on a machine whose name and /dev/shm are in order. `space`:
/// options of unshare.
Outcome doctor(const std::string& before, const std::string& arguments, const std::string& space) {
  return shell(
      "cat >$0.inside <<'END'\nset -e\nhostname planted\n"
      "printf '127.0.0.1 localhost\\n192.0.2.1 planted\\n' >$1.hosts\n"
      "mount --bind $1.hosts /etc/hosts\nmount -t tmpfs -o size=1g none /dev/shm\n" +
      before + "\nexec $2 doctor " + arguments + "\nEND\nexec unshare " + space +
      " sh $0.inside $0 $RONDO\n");
}

std::vector<std::string> findings(const std::string& out) {
  std::vector<std::string> found;
  for (const std::string& line : linesOf(out))
    if (line.starts_with("warning: ") || line.starts_with("error: ")) found.push_back(line);
  return found;
}

/// Runs the planted fault, and requires that it adds exactly its own line.
void check(const Planted& planted, const std::string& space,
           const std::vector<std::string>& before) {
  const Outcome outcome = doctor(planted.before, planted.arguments, space);
  INFO(planted.what << "\n" << outcome.out << outcome.err);
  CHECK(outcome.status == planted.status);
  std::vector<std::string> added;
  for (const std::string& line : findings(outcome.out))
    if (std::find(before.begin(), before.end(), line) == before.end()) added.push_back(line);
  REQUIRE(added.size() == 1);
  CHECK(added[0].find(planted.finding) != std::string::npos);
  CHECK(added[0].find(". Remedy: ") != std::string::npos);
}

TEST_CASE("doctor: each fault of this machine is one line with its remedy") {
  const std::string space = "-mu";
  if (shell("unshare " + space + " mount -t tmpfs none /dev/shm").status != 0) {
    WARN("not run: it needs root, for namespaces");
    return;
  }
  const Outcome healthy = doctor("", "", space);
  INFO(healthy.out << healthy.err);
  REQUIRE(healthy.status == 0);
  const Planted faults[] = {
      {"100 descriptors", "ulimit -n 100", "",
       "warning: descriptors: a process may open only 100 files", 0},
      {"small files", "ulimit -f 200000", "", "warning: file size: files may have only 97 MiB", 0},
      {"/dev/shm of 64 MiB", "mount -t tmpfs -o size=64m none /dev/shm", "",
       "warning: /dev/shm: /dev/shm has only 64 MiB", 0},
      {"a name that means 127.0.1.1", "printf '127.0.1.1 planted\\n' >$1.hosts", "",
       "warning: own name: this machine's name, planted, resolves to 127.0.1.1: a rank on another "
       "machine",
       0},
      {"an interface that is not there", "export RONDO_SOCKET_IFNAME=nosuch0", "",
       "error: interface: RONDO_SOCKET_IFNAME=nosuch0 fits no interface that is up", 1},
      {"a setting that is wrong", "export RONDO_HEARTBEAT=soon", "",
       "error: settings: RONDO_HEARTBEAT", 1},
      {"more ranks than processors",
       "taskset -cp $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') $$ >$1.bound", "-p 2",
       "warning: oversubscription: 2 ranks share 1 processors", 0},
  };
  for (const Planted& planted : faults) check(planted, space, findings(healthy.out));
}

TEST_CASE("doctor: a machine without loopback runs no job; one with bridges only runs its own") {
  const std::string space = "-mun";
  if (shell("unshare " + space + " true").status != 0) {
    WARN("not run: it needs root, for namespaces");
    return;
  }
  const Outcome down = doctor("", "", space);
  INFO(down.out << down.err);
  CHECK(down.status == 1);
  CHECK(down.out.find("error: loopback: the loopback interface is down") != std::string::npos);
  CHECK(down.out.find("a job does not run here") != std::string::npos);
  const Outcome up = doctor("ip link set lo up", "", space);
  INFO(up.out << up.err);
  CHECK(up.status == 0);
  CHECK(up.out.find("warning: network: no interface but loopback is up") != std::string::npos);
  check(
      {"docker0 only",
       "ip link set lo up\nip link add docker0 type bridge\nip addr add 172.17.0.1/16 dev docker0\n"
       "ip link set docker0 up",
       "", "warning: network: only bridges are up (docker0)", 0},
      space, {});
}

TEST_CASE("doctor: JSON has every check, and the text only findings") {
  const Outcome outcome = shell("$RONDO doctor --json");
  const auto page = nlohmann::json::parse(outcome.out);
  CHECK(page["runs"] == (outcome.status == 0));
  std::size_t wrong = 0;
  for (const auto& check : page["checks"]) {
    wrong += check["level"] != "ok";
    CHECK(check.contains("remedy") == (check["level"] != "ok"));
  }
  CHECK(page["checks"].size() >= 20);
  CHECK(linesOf(shell("$RONDO doctor").out).size() == wrong + 1);
}

} // namespace
} // namespace rondo::tools
