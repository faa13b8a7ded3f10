// `rondo run` on a terminal: Ctrl-C, Ctrl-Z and `fg`, and ranks that read typed input.
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

/// A shell line on a terminal of its own; in the line $RONDO is the command under test.
class TerminalJob {
 public:
  explicit TerminalJob(const std::string& line) { start({"sh", "-c", line.c_str(), nullptr}); }
  /// An interactive shell with job control, in which typed lines run.
  TerminalJob() {
    start({"bash", "--norc", "--noprofile", "--noediting", "-i", nullptr});
    expect("prompt> ");
  }
  ~TerminalJob() {
    // The processes of the terminal's session get SIGHUP.
    ::close(fd_);
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  TerminalJob(const TerminalJob&) = delete;
  TerminalJob& operator=(const TerminalJob&) = delete;

  void type(const std::string& text) {
    REQUIRE(::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  /// Waits until the text was printed `times` times, and forgets the output up to then.
  void expect(const std::string& text, int times = 1) {
    for (int seen = 0; seen < times; ++seen) {
      std::size_t at;
      while ((at = printed_.find(text)) == std::string::npos) {
        INFO("waiting for \"" << text << "\" after: " << printed_);
        REQUIRE(more(std::chrono::seconds(60)));
      }
      printed_.erase(0, at + text.size());
    }
  }
  /// Returns the output of this period.
  std::string during(std::chrono::milliseconds time) {
    printed_.clear();
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) more(std::chrono::milliseconds(20));
    return printed_;
  }
  int status() {
    int status = 0;
    while (more(std::chrono::seconds(60))) {
    }
    REQUIRE(::waitpid(std::exchange(pid_, -1), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  void start(std::vector<const char*> words) {
    pid_ = ::forkpty(&fd_, nullptr, nullptr, nullptr);
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    ::setenv("RONDO", RONDO_COMMAND, 1);
    ::setenv("PS1", "prompt> ", 1);
    ::execvp(words[0], const_cast<char**>(words.data()));
    ::_exit(127);
  }
  /// Returns false if nothing was printed in time, or if the terminal has no process any more.
  bool more(std::chrono::milliseconds most) {
    pollfd readable = {fd_, POLLIN, 0};
    if (::poll(&readable, 1, static_cast<int>(most.count())) <= 0) return false;
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
    if (n > 0) printed_.append(buffer.data(), static_cast<std::size_t>(n));
    return n > 0;
  }

  pid_t pid_ = -1;
  int fd_ = -1;
  std::string printed_;
};

const std::string kCtrlC = "\x03", kCtrlZ = "\x1a";

/// A rank that prints a word which is never typed, and runs until Ctrl-C.
const std::string kTicking =
    "sh -c 'trap \"echo go\"\"t; exit 9\" INT; echo rea\"\"dy; "
    "while :; do sleep 0.05; echo tick$RONDO_RANK; done'";

TEST_CASE("terminal: Ctrl-C reaches every rank", "[run]") {
  TerminalJob job("exec $RONDO run -p 3 -- " + kTicking);
  job.expect("ready", 3);
  job.type(kCtrlC);
  job.expect("got", 3);
  CHECK(job.status() == 9);
}

/// Ranks that read one word each, one rank after the other: if both read at once, each
/// gets letters.
std::string readers(const TemporaryFolder& folder) {
  const std::string file = folder.file("read");
  return "sh -c 'echo rea\"\"dy; while [ $RONDO_RANK = 1 ] && [ ! -e " + file +
         " ]; do sleep 0.05; done; read WORD; echo ha\"\"s $WORD; touch " + file + "'";
}

TEST_CASE("terminal: each rank reads what is typed", "[run]") {
  const TemporaryFolder folder;
  TerminalJob job("exec $RONDO run -p 2 -- " + readers(folder));
  job.expect("ready", 2);
  job.type("one\n");
  job.expect("has one");
  job.type("two\n");
  job.expect("has two");
  CHECK(job.status() == 0);
}

TEST_CASE("terminal: Ctrl-C ends all ranks after one has read from the terminal", "[run]") {
  TerminalJob job(
      "exec $RONDO run -p 2 -- sh -c 'if [ $RONDO_RANK = 0 ]; then read WORD; fi; echo rea\"\"dy; "
      "sleep 1000; true'");
  job.type("word\n");
  job.expect("ready", 2);
  job.during(std::chrono::milliseconds(300)); // dash may lose a signal while it forks
  job.type(kCtrlC);
  CHECK(job.status() == 128 + SIGINT);
}

#ifdef RONDO_HAVE_DNNL
TEST_CASE("terminal: what follows a progress bar begins on an empty line", "[train]") {
  TerminalJob job(
      "exec $RONDO train -p 1 --threads --data synthetic:shape=1x8x8,train=2000,test=20 --batch 20 "
      "--epochs 500 --pace 5");
  job.expect(" samples/s");
  job.type(kCtrlC);
  job.expect("\r\x1b[Kstep ");
  CHECK(job.status() == 130);
}

TEST_CASE("terminal: what the launcher says of a rank begins on an empty line", "[train]") {
  TerminalJob job(
      "$RONDO train -p 2 --elastic 1:2 --data synthetic:shape=1x8x8,train=2000,test=20 --batch 20 "
      "--epochs 40 --pace 5 &\nJOB=$!\nread LINE\n" +
      killRank(1) + "read LINE\nkill $JOB\nwait $JOB");
  job.expect(" samples/s");
  job.type("\n");
  job.expect("\r\x1b[Krondo: rank 1 (pid ");
  job.expect("the others go on");
  job.type("\n");
  CHECK(job.status() == 130);
}
#endif

bool haveBash() {
  const bool have = shell("bash -c true").status == 0;
  if (!have) WARN("skipped: there is no bash, a shell with job control");
  return have;
}

TEST_CASE("terminal: a shell with job control may be a rank", "[run]") {
  if (!haveBash()) return;
  TerminalJob job("PS1='inner> ' exec $RONDO run -p 1 -- bash --norc --noprofile --noediting -i");
  job.expect("inner> ");
  job.type("sleep 1000\n");
  job.during(std::chrono::milliseconds(500)); // the program has the terminal by then
  job.type(kCtrlC);
  job.expect("inner> ");
  const std::string background = "sleep 1000." + std::to_string(::getpid()); // this test's only
  job.type(background + " &\n");
  job.expect("inner> ");
  job.type("echo al''ive; exit 5\n");
  job.expect("alive");
  CHECK(job.status() == 5);
  // It was in a process group of its own.
  CHECK(shell("pgrep -fx '" + background + "'").status == 1);
}

TEST_CASE("terminal: Ctrl-Z stops the whole job, and fg continues it", "[run]") {
  if (!haveBash()) return;
  TerminalJob job;
  job.type("$RONDO run -p 2 -- " + kTicking + "; echo sta''tus $?\n");
  job.expect("ready", 2);
  for (int i = 0; i < 2; ++i) {
    job.expect("tick0");
    job.expect("tick1");
    job.type(kCtrlZ);
    job.expect("Stopped");
    job.during(std::chrono::milliseconds(100)); // output that is still on its way
    CHECK(job.during(std::chrono::milliseconds(500)).find("tick") == std::string::npos);
    job.type("fg; echo sta''tus $?\n");
  }
  job.expect("tick0");
  job.expect("tick1");
  job.type(kCtrlC);
  job.expect("got", 2);
  job.expect("status 9");
  job.type("exit\n");
}

TEST_CASE("terminal: Ctrl-Z stops the whole job while a rank has the terminal", "[run]") {
  if (!haveBash()) return;
  const TemporaryFolder folder;
  TerminalJob job;
  job.type("$RONDO run -p 2 -- " + readers(folder) + "\n");
  job.expect("ready", 2);
  job.during(std::chrono::milliseconds(300));
  job.type(kCtrlZ);
  job.expect("Stopped");
  job.expect("prompt> ");
  job.type("echo pr''inted\n");
  job.expect("printed");
  job.type("fg; echo sta''tus $?\n");
  job.during(std::chrono::milliseconds(300));
  job.type("one\n");
  job.expect("has one");
  job.type("two\n");
  job.expect("has two");
  job.expect("status 0");
  job.type("exit\n");
}

TEST_CASE("terminal: a job in the background reads nothing before fg", "[run]") {
  if (!haveBash()) return;
  TerminalJob job;
  job.type("$RONDO run -p 1 -- sh -c 'read WORD; echo ha\"\"s $WORD' &\n");
  job.expect("prompt> ");
  job.during(std::chrono::milliseconds(300));
  job.type("echo pr''inted\n");
  job.expect("printed");
  job.type("until jobs -s | grep -q .; do sleep 0.02; done; echo stop''ped\n");
  job.expect("stopped");
  job.type("fg; echo sta''tus $?\n");
  job.during(std::chrono::milliseconds(300));
  job.type("one\n");
  job.expect("has one");
  job.expect("status 0");
  job.type("exit\n");
}

} // namespace
} // namespace rondo::test
