// The metrics' endpoint: its text, and that clients which idle, flood or send garbage harm nobody.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rondo/error.h"
#include "support/grid.h"
#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/descriptor.h"
#include "tools/watch_print.h"
#include "tools/watch_serve.h"

namespace rondo::test {
namespace {

using namespace tools;

class Running {
 public:
  explicit Running(const std::string& page) { server_.show(page); }
  Descriptor connect() const {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string& address = server_.address();
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
    const timeval limit{20, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return socket;
  }
  std::string ask(const std::string& request) const { return answerOf(connect(), request); }
  /// Sends the request, and reads until the server closes; "late" if it does not.
  static std::string answerOf(const Descriptor& socket, const std::string& request) {
    ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
    std::string all;
    char piece[4096];
    ssize_t got = 0;
    while ((got = ::recv(socket.get(), piece, sizeof(piece), 0)) > 0)
      all.append(piece, static_cast<std::size_t>(got));
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? "late" : all;
  }

 private:
  PageServer server_{"0"};
};

const std::string kRequest = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_CASE("endpoint: a page, also in pieces and after 1000 idle connections") {
  const Running server("rondo_calls_total 1\n" + std::string(3'000'000, '#') + "\n");
  const std::string answer = server.ask(kRequest);
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.find("\r\n\r\nrondo_calls_total 1\n") != std::string::npos);
  CHECK(answer.ends_with("#\n"));
  CHECK(answer.size() > 3'000'000);
  std::vector<Descriptor> idle;
  for (int i = 0; i < 1000; ++i) idle.push_back(server.connect());
  CHECK(server.ask(kRequest).ends_with("#\n"));
  for (const Descriptor& one : idle) REQUIRE(Running::answerOf(one, "").empty()); // dropped
  CHECK(server.ask(kRequest).ends_with("#\n"));
}

TEST_CASE("endpoint: garbage and floods are dropped, other requests refused") {
  const Running server("page\n");
  CHECK(server.ask("GET / HTTP/1.0\r\n\r\n").find("see /metrics") != std::string::npos);
  CHECK(server.ask("GET /x HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
  CHECK(server.ask("POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405 "));
  CHECK(server.ask("GET /metrics HTTP/1.0\n\n").starts_with("HTTP/1.1 200 "));
  CHECK(server.ask(std::string(1'000'000, '\xff')).empty());
  CHECK(server.ask("\x16\x03\x01\x02").empty()); // it never ends its request
  for (std::size_t i = 0; i < 100; ++i) { // sends a part of a request, reads nothing, and leaves
    const Descriptor socket = server.connect();
    ::send(socket.get(), kRequest.data(), i % (kRequest.size() + 1), MSG_NOSIGNAL);
  }
  CHECK(server.ask(kRequest).ends_with("\r\n\r\npage\n"));
}

TEST_CASE("endpoint: it listens on loopback unless an address is given, and refuses bad ones") {
  CHECK(PageServer("0").address().starts_with("127.0.0.1:"));
  CHECK(PageServer("0.0.0.0:0").address().starts_with("0.0.0.0:"));
  for (const char* bad : {"", "x", "1:", ":1", "123456", "nosuch.invalid:1"})
    CHECK_THROWS_AS(PageServer(bad), Error);
}

/// A view of two ranks, the first of which waits for the second.
View waitingView() {
  static RecordedRank ranks[2];
  static RecordedCall call;
  call.name = "AllReduce";
  View view;
  CommunicatorView communicator{.id = "c", .transports = "shm", .size = 2};
  for (int i = 0; i < 2; ++i) {
    ranks[i].rank = i;
    ranks[i].process = "a\"b:1" + std::to_string(i);
    ranks[i].totals["allreduce"] = {5, 40};
    communicator.ranks.push_back({.rank = &ranks[i]});
  }
  communicator.ranks[0].call = &call;
  communicator.ranks[0].call_seconds = 2.5;
  communicator.ranks[0].waits_for = {1};
  const Finding finding{"never_entered", 1, "text"};
  communicator.findings = {finding, finding};
  auto dumps = std::make_shared<Dumps>();
  dumps->job = "j";
  view.jobs.push_back({.dumps = dumps, .communicators = {communicator}});
  return view;
}

TEST_CASE("metrics: conventional names, one type for each, and no series twice") {
  const std::string text = metricsOf(waitingView());
  INFO(text);
  for (const char* line :
       {"rondo_calls_total{rondo_job=\"j\",communicator=\"c\",rank=\"0\",collective=\"allreduce\"} "
        "5",
        "rondo_bytes_total{rondo_job=\"j\",communicator=\"c\",rank=\"1\",collective=\"allreduce\"} "
        "40",
        "rondo_call_seconds{rondo_job=\"j\",communicator=\"c\",rank=\"0\"} 2.5",
        "rondo_call_seconds{rondo_job=\"j\",communicator=\"c\",rank=\"1\"} 0",
        "rondo_waiting_for{rondo_job=\"j\",communicator=\"c\",rank=\"0\",peer=\"1\"} 1",
        "rondo_culprit{rondo_job=\"j\",communicator=\"c\",rank=\"1\",kind=\"never_entered\"} 1",
        "host=\"a\\\"b\",pid=\"10\"", "# TYPE rondo_calls_total counter"})
    CHECK(text.find(line) != std::string::npos);
  std::set<std::string> seen;
  for (const std::string& line : linesOf(text))
    CHECK(seen.insert(line.substr(0, line.rfind(' '))).second);
}

TEST_CASE("endpoint: rondo watch answers while its looks take longer than the interval",
          "[command]") {
  const TemporaryFolder folder;
  // 2000 calls of each of these processes, which each look reads: for longer than 0.05 s.
  const int processes = kWholeGrid ? 50 : 5;
  const std::string script =
      "cd " + folder.file("") +
      "\npython3 - >dumps <<'END'\n"
      "for pid in range(" +
      std::to_string(processes) +
      "):\n"
      "  print('{\"rondo_dump\":2,\"host\":\"far\",\"pid\":%d,\"state\":\"R\",\"time_ns\":9}' % "
      "pid)\n"
      "  print('{\"communicator\":\"c\",\"job\":\"j\",\"rank\":%d,\"size\":50,\"open\":true,'\n"
      "        "
      "'\"transports\":\"shm\",\"entered\":2000,\"totals\":[{\"collective\":\"allreduce\",'\n"
      "        '\"calls\":2000,\"bytes\":9}],\"waits\":[]}' % pid)\n"
      "  for call in range(2000):\n"
      "    "
      "print('{\"record_id\":%d,\"collective_seq_id\":%d,\"is_p2p\":false,\"profiling_name\":'\n"
      "          '\"rondo:AllReduce\",\"count\":1,\"state\":\"completed\",\"time_created_ns\":1,'\n"
      "          '\"time_completed_ns\":2}' % (call + 1, call + 1))\n"
      "  print('{\"end\":true,\"lines\":2003}')\nEND\n"
      "$RONDO watch --interval 0.05 --prometheus 0 --job j \\\n"
      "  --from 'while cat dumps; do sleep 1; done' >watched 2>err &\nWATCH=$!\n"
      "for TRY in $(seq 300); do grep -q metrics err && break; sleep 0.1; done\n"
      "for TRY in $(seq 100); do\n"
      "  timeout 30 python3 -c 'import sys, urllib.request as r;"
      " print(r.urlopen(sys.argv[1]).read().decode())' $(sed 's/metrics: //' err) >page || break\n"
      "  [ $(grep -c 'rondo_job=\"j\"' page) -ge " +
      std::to_string(processes) +
      " ] && break\n"
      "  sleep 0.3\ndone\ncat page\nkill $WATCH; wait\n";
  const Outcome outcome = shell(script, 400);
  INFO(outcome.out << outcome.err << readFile(folder.file("err")));
  CHECK(countOf(outcome.out, "rondo_job=\"j\"") >= processes);
}

TEST_CASE("endpoint: rondo watch serves the metrics of a running job") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("cd " + folder.file("") +
            "\nRONDO_HEARTBEAT=30 $RONDO run -p 2 -- " RONDO_TEST_PROGRAMS
            "/program_endless_allreduce 1000 >out 2>&1 &\nJOB=$!\n"
            "for TRY in $(seq 300); do [ $(grep -c ready out) = 2 ] && break; sleep 0.1; done\n"
            // Only this job: others may run beside it.
            "$RONDO watch --interval 0.3 --prometheus 0 $(sed -n 's/^ready . //p' out) >watched "
            "2>err &\nWATCH=$!\n"
            "for TRY in $(seq 300); do grep -q metrics err && break; sleep 0.1; done\n"
            // On a busy machine the first looks may come before the job is seen.
            "for TRY in $(seq 100); do\n"
            "  python3 -c 'import sys, urllib.request as r;"
            " print(r.urlopen(sys.argv[1]).read().decode())' $(sed 's/metrics: //' err) >page\n"
            "  [ $(grep -c 'collective=\"allreduce\"} ' page) -ge 4 ] && break\n"
            "  sleep 0.3\ndone\ncat page\nkill $WATCH $JOB; wait\n");
  INFO(outcome.out << outcome.err << readFile(folder.file("out")) << readFile(folder.file("err")));
  CHECK(countOf(outcome.out, "collective=\"allreduce\"} ") >= 4);
  CHECK(readFile(folder.file("watched")).empty());
}

} // namespace
} // namespace rondo::test
