// `rondo doctor`: each planted fault is one line that names it and its remedy, and nothing else is.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
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

/// Shell code: loopback, and a network that a veth's other end makes look connected. (Few kernels
/// lack this type; the doctor leaves out interfaces whose names begin with veth.)
const std::string kMachine =
    "ip link set lo up\nip link add eth9 type veth peer name veth9\nip link set veth9 up\n"
    "ip addr add 192.0.2.1/24 dev eth9\nip link set eth9 up\nip route add default via 192.0.2.9\n";

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

TEST_CASE("doctor: each fault of this machine is one line with its remedy", "[command]") {
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
      {"no huge pages",
       "echo 'always madvise [never]' >$1.thp\n"
       "mount --bind $1.thp /sys/kernel/mm/transparent_hugepage/enabled",
       "", "warning: huge pages: transparent huge pages are off", 0},
      {"a setting that is wrong", "export RONDO_HEARTBEAT=soon", "",
       "error: settings: RONDO_HEARTBEAT", 1},
      {"more ranks than processors",
       "taskset -cp $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') $$ >$1.bound", "-p 2",
       "warning: oversubscription: 2 ranks share 1 processors", 0},
  };
  for (const Planted& planted : faults) check(planted, space, findings(healthy.out));
}

TEST_CASE("doctor: a machine without loopback runs no job; one with bridges only runs its own",
          "[command]") {
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
  if (shell("unshare " + space +
            " sh -c 'ip link add eth9 type veth && ip link add docker0 type bridge'")
          .status != 0) {
    WARN("not run: this kernel has no veth or bridge");
    return;
  }
  const std::string docker =
      "ip link add docker0 type bridge\nip addr add 172.17.0.1/16 dev docker0\n"
      "ip link set docker0 up\n";
  check({"a bridge is named", (kMachine + docker + "export RONDO_SOCKET_IFNAME=docker0").c_str(),
         "", "warning: interface: RONDO_SOCKET_IFNAME=docker0 is a bridge", 0},
        space, {});
  const Outcome up = doctor("ip link set lo up", "", space);
  INFO(up.out << up.err);
  CHECK(up.status == 0);
  CHECK(up.out.find("warning: network: no interface but loopback is up") != std::string::npos);
  check({"docker0 only", ("ip link set lo up\n" + docker).c_str(), "",
         "warning: network: only bridges are up (docker0)", 0},
        space, {});
}

TEST_CASE("doctor: names and addresses that disagree, and a name server that does not answer",
          "[command]") {
  const std::string space = "-munpf --mount-proc --kill-child";
  if (shell("unshare " + space + " sh -c 'ip link add eth9 type veth'").status != 0) {
    WARN("not run: it needs root, for namespaces");
    return;
  }
  const std::string only_own_name =
      "printf '127.0.0.1 localhost\\n192.0.2.77 planted\\n' "
      ">$1.hosts\n";
  // Answers every question for a name with 192.0.2.7, and for an address with astray.test.
  const std::string server =
      "cat >$1.py <<'PY'\nimport socket, struct\n"
      "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('127.0.0.1', 53))\n"
      "print('ready', flush=True)\nwhile True:\n  q, a = s.recvfrom(512)\n  e = 12\n"
      "  while q[e]: e += q[e] + 1\n  kind = q[e + 1:e + 3]\n"
      "  body = {b'\\0\\x0c': b'\\6astray\\4test\\0', b'\\0\\1': b'\\xc0\\0\\2\\7'}.get(kind, "
      "b'')\n"
      "  head = q[:2] + b'\\x81\\x80\\0\\1\\0' + bytes([len(body) > 0]) + b'\\0\\0\\0\\0'\n"
      "  answer = b'\\xc0\\x0c' + kind + b'\\0\\1\\0\\0\\0\\x0a' + struct.pack('>H', len(body)) + "
      "body\n"
      "  s.sendto(head + q[12:e + 5] + (answer if body else b''), a)\nPY\n"
      "python3 $1.py >$1.ready &\nuntil grep -q ready $1.ready; do sleep 0.05; done\n";
  const auto named = [](const std::string& address) {
    return "echo nameserver " + address + " >$1.resolv\nmount --bind $1.resolv /etc/resolv.conf\n";
  };
  const Outcome healthy = doctor(kMachine, "", space);
  INFO(healthy.out << healthy.err);
  const auto before = findings(healthy.out);
  check({"an address whose name means another one",
         (kMachine + only_own_name + server + named("127.0.0.1")).c_str(), "",
         "warning: address name: the address 192.0.2.1 (eth9) is named astray.test, but that name "
         "means 192.0.2.7",
         0},
        space, before);
  check({"a name server that does not answer",
         (kMachine + only_own_name + named("192.0.2.99")).c_str(), "",
         "warning: address name: the name server does not answer within 2 s", 0},
        space, before);
}

TEST_CASE("doctor: JSON has every check, and the text only findings", "[command]") {
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

TEST_CASE("doctor: JSON also if the ranks cannot meet", "[command]") {
  const Outcome outcome =
      shell("RONDO_RANK=1 RONDO_SIZE=2 RONDO_COMM_ID=nosuch.invalid:23456 $RONDO doctor --json");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 1);
  const auto page = nlohmann::json::parse(outcome.out);
  CHECK(page["runs"] == false);
  REQUIRE(page["findings"].size() == 1);
  CHECK(page["findings"][0]["name"] == "join");
  CHECK(page["findings"][0]["text"].get<std::string>().starts_with("rank 1 on "));
}

TEST_CASE("doctor: it writes neither traces nor dumps", "[command]") {
  const TemporaryFolder folder;
  const std::string in = folder.file("");
  shell("cd " + in + "\nRONDO_TRACE=traces RONDO_DUMP=dumps $RONDO doctor\n");
  CHECK(std::filesystem::is_empty(in));
}

TEST_CASE("doctor: a drawing that cannot be written is refused first, on all ranks", "[command]") {
  const Outcome outcome =
      shell("$RONDO run -p 2 -- sh -c '$0 doctor --svg /nowhere/x.svg; echo status $?' $RONDO");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out == "status 3\nstatus 3\n");
  CHECK(countOf(outcome.err, "--svg: cannot write '/nowhere/x.svg': No such file") == 1);
}

// Proves: what the doctor says of a cause is exact: each interface once, a size below 1 MiB in KiB,
// and for an unknown name the remedy for names.
TEST_CASE("doctor: texts on interfaces, small limits and unknown names", "[command]") {
  const std::string interfaces = shell("RONDO_SOCKET_IFNAME=nosuch0 $RONDO doctor").out;
  INFO(interfaces);
  const auto at = interfaces.find("there are: ");
  REQUIRE(at != std::string::npos);
  std::istringstream list(interfaces.substr(at + 11, interfaces.find(". Remedy", at) - at - 11));
  std::set<std::string> names;
  for (std::string name; std::getline(list >> std::ws, name, ',');)
    CHECK(names.insert(name).second);
  CHECK(shell("ulimit -f 1000; $RONDO doctor").out.find("files may have only 500 KiB") !=
        std::string::npos);
  const std::string unknown =
      shell("RONDO_RANK=1 RONDO_SIZE=2 RONDO_COMM_ID=nosuch.invalid:23456 $RONDO doctor").out;
  INFO(unknown);
  CHECK(unknown.find("cannot be resolved") != std::string::npos);
  CHECK(unknown.find("add its name to DNS or /etc/hosts") != std::string::npos);
}

} // namespace
} // namespace rondo::test
