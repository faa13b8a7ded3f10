// Ranks as processes: rank 1 is this program again, running the hidden test case at the end.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "harness.h"
#include "rondo/error.h"
#include "support/test.h"

extern char** environ;

namespace rondo::test {
namespace {

using namespace transport;

constexpr std::uint64_t kGoodbye = ~std::uint64_t{0}; ///< signature that ends rank 1
constexpr int kChildOut = 3;

void writeBlob(int fd, std::span<const std::byte> bytes) {
  const auto size = static_cast<std::uint16_t>(bytes.size());
  require(::write(fd, &size, sizeof size) == sizeof size, "pipe");
  require(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "pipe");
}

Bytes readBlob(int fd) {
  std::uint16_t size = 0;
  require(::read(fd, &size, sizeof size) == sizeof size, "the other process ended");
  Bytes out(size);
  require(size == 0 || ::read(fd, out.data(), size) == size, "the other process ended");
  return out;
}

/// The transports of this build that work between processes.
std::vector<Kind> wires() {
  std::vector<Kind> wires;
  for (const Kind& kind : conformingKinds())
    if (kind.between_processes) wires.push_back(kind);
  return wires;
}

Options only(std::string_view name) {
  Options options;
  options.transports = name;
  return options;
}

/// A process that runs rank 1. The destructor kills it, if necessary, and waits for it.
class Peer {
 public:
  Peer() {
    int in[2], out[2];
    require(::pipe2(in, O_CLOEXEC) == 0 && ::pipe2(out, O_CLOEXEC) == 0, "pipe");
    const base::UniqueFd child_in(in[0]), child_out(out[1]);
    to_.reset(in[1]);
    from_.reset(out[0]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, child_in.get(), 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0); // hides its summary
    posix_spawn_file_actions_adddup2(&actions, child_out.get(), kChildOut);
    // Modules are found by the program's path.
    std::string name = std::filesystem::read_symlink("/proc/self/exe");
    char filter[] = "[transport-peer]";
    char* const arguments[] = {name.data(), filter, nullptr};
    const int error = ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    require(error == 0, "posix_spawn");
  }
  ~Peer() {
    if (pid_ <= 0) return;
    kill();
  }
  int to() const { return to_.get(); }
  int from() const { return from_.get(); }
  void kill() {
    ::kill(pid_, SIGKILL);
    join();
  }
  int join() {
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
  base::UniqueFd to_, from_;
};

/// Rank 0 in this process, rank 1 in the other, with a channel in each direction.
struct Meeting {
  explicit Meeting(const Kind& kind) {
    context = makeContext(0, 2, 7, only(kind.name), net::Secret::random(), nullptr);
    transport = kind.make(context);
    writeBlob(peer.to(), std::as_bytes(std::span(kind.name)));
    writeBlob(peer.to(), context.secret.bytes);
    writeBlob(peer.to(), transport->address());
    const Address address = readBlob(peer.from());
    require(transport->reaches(address), "not reached");
    const auto sends = transport->open({7, 0, 1, 0}, address);
    const auto receives = transport->open({7, 1, 0, 0}, address);
    out.emplace(wait(*sends), transport->worker());
    in.emplace(wait(*receives), transport->worker());
  }

  Peer peer;
  Context context;
  std::unique_ptr<Transport> transport;
  std::optional<Out> out;
  std::optional<In> in;
};

} // namespace

TEST_CASE("messages of all sizes travel between two processes and back") {
  for (const Kind& kind : wires()) {
    INFO(kind.name);
    Meeting meeting(kind);
    std::mt19937_64 random(2);
    for (std::uint64_t i = 0; i < 500; ++i) {
      const std::size_t slot = meeting.out->port().slot_bytes;
      const Bytes body = patternOf(i, i % 50 == 0 ? slot : random() % (i % 2 ? 100 : 9000));
      meeting.out->send(i, body);
      meeting.out->flush();
      std::uint64_t signature = 0;
      require(meeting.in->next(signature) == body, "wrong body");
      require(signature == i, "wrong header");
    }
    meeting.out->send(kGoodbye, {});
    const int status = meeting.peer.join();
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
}

TEST_CASE("after a process is killed, network channels name it and shared memory stays usable") {
  for (const Kind& kind : wires()) {
    INFO(kind.name);
    Meeting meeting(kind);
    const Bytes body = patternOf(1, 1000);
    std::uint64_t signature = 0;
    meeting.out->send(1, body);
    CHECK(meeting.in->next(signature) == body);
    meeting.peer.kill();
    if (meeting.out->mapped()) {
      // The control plane reports the death; here it must only cause no error.
      CHECK(meeting.in->peek() == nullptr);
      int started = 0;
      while (meeting.out->start(2, body)) ++started;
      CHECK(started >= meeting.out->port().depth);
      continue;
    }
    const auto dies = [&](const std::function<void()>& step) {
      try {
        for (const Watch watch("for the peer's death"); true; watch.check()) step();
      } catch (const Error& error) {
        // UCX does not distinguish a reset connection from a silent one.
        CHECK((error.code() == ErrorCode::peer_dead || kind.name == "ucx"));
        CHECK(error.culprit() == 1);
      }
    };
    dies([&] { meeting.in->peek(); });
    dies([&] { meeting.out->start(3, body); });
  }
}

TEST_CASE("rank 1 of process_test.cc", "[.][transport-peer]") {
  const Bytes name = readBlob(0);
  const Bytes secret = readBlob(0);
  const Address address = readBlob(0);
  const std::string_view text(reinterpret_cast<const char*>(name.data()), name.size());
  Context context = makeContext(1, 2, 7, only(text), {}, nullptr);
  context.secret.present = true;
  std::copy(secret.begin(), secret.end(), context.secret.bytes.begin());
  const auto all = wires();
  const auto kind =
      std::find_if(all.begin(), all.end(), [&](const Kind& k) { return k.name == text; });
  require(kind != all.end(), "unknown kind");
  const auto transport = kind->make(context);
  writeBlob(kChildOut, transport->address());
  const auto receives = transport->open({7, 0, 1, 0}, address);
  const auto sends = transport->open({7, 1, 0, 0}, address);
  In in(wait(*receives), transport->worker());
  Out out(wait(*sends), transport->worker());
  for (;;) {
    std::uint64_t signature = 0;
    const Bytes body = in.next(signature);
    if (signature == kGoodbye) break;
    out.send(signature, body);
    out.flush();
  }
}

} // namespace rondo::test
