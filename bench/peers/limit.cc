// Measures how long the bare work of an fp32 all-reduce takes on this machine: the copies and
// additions, by hand and without a library. It is a reference, not a bound: Rondo can be faster.
//
// usage: limit shm RANKS BYTES...
//        limit tcp 2 BYTES... [--congestion NAME]
//        limit line
//   shm: threads that see each other's vectors. Each sums its share of all vectors; after one
//        barrier each copies the other shares.
//   tcp: two threads. Each sends and receives the vector, one half after the other, as in the two
//        phases of an all-reduce; nothing is added up.
//   line: prints how many nanoseconds a cache line takes from one processor to another one.
// Prints for each size: bytes, microseconds (median; from 64 KiB on, vectors are written again
// before each sample).
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

int cores() {
  cpu_set_t may;
  sched_getaffinity(0, sizeof may, &may);
  return CPU_COUNT(&may);
}

void pin(int rank) {
  static const cpu_set_t may = [] {
    cpu_set_t set;
    sched_getaffinity(getpid(), sizeof set, &set);
    return set;
  }();
  int skip = rank % CPU_COUNT(&may);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &may) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

/// A barrier of all threads; each thread writes its own cache line.
class Meeting {
 public:
  explicit Meeting(int ranks)
      : lines_(static_cast<std::size_t>(ranks)), crowded_(ranks > cores()) {}
  void meet(int rank) {
    const std::uint64_t mine = lines_[static_cast<std::size_t>(rank)].round.load() + 1;
    lines_[static_cast<std::size_t>(rank)].round.store(mine, std::memory_order_release);
    for (const Line& line : lines_)
      while (line.round.load(std::memory_order_acquire) < mine)
        if (crowded_) sched_yield();
  }

 private:
  struct alignas(64) Line {
    std::atomic<std::uint64_t> round{0};
  };
  std::vector<Line> lines_;
  const bool crowded_;
};

/// Runs `once(rank)` on pinned threads for about a second. Returns the median, of the slowest rank.
template <class Fill, class Once>
double median(int ranks, std::size_t bytes, Fill fill, Once once) {
  const bool alone = bytes >= 64 << 10;
  const int samples = alone ? 20 : 200, batch = alone ? 1 : 50;
  std::vector<std::vector<double>> times(static_cast<std::size_t>(ranks));
  Meeting start(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      pin(rank);
      for (int s = -2; s < samples; ++s) {
        if (alone || s < 0) fill(rank);
        start.meet(rank);
        const auto begin = Clock::now();
        for (int i = 0; i < batch; ++i) once(rank);
        const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
        if (s >= 0) times[static_cast<std::size_t>(rank)].push_back(took.count() / batch);
      }
    });
  for (std::thread& thread : threads) thread.join();
  double slowest = 0;
  for (auto& own : times) {
    std::nth_element(own.begin(), own.begin() + samples / 2, own.end());
    slowest = std::max(slowest, own[static_cast<std::size_t>(samples / 2)]);
  }
  return slowest;
}

double sharedMemory(int ranks, std::size_t bytes) {
  const auto p = static_cast<std::size_t>(ranks);
  const std::size_t count = std::max<std::size_t>(bytes / sizeof(float), 1);
  std::vector<std::vector<float>> in(p), out(p);
  for (auto& one : in) one.assign(count, 0);
  for (auto& one : out) one.assign(count, 0);
  Meeting ready(ranks), middle(ranks);
  const std::vector<float> table(10007, 1.0f);
  const auto fill = [&](int rank) { // see mpi_bench.c
    auto& own = in[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < own.size(); i += table.size())
      std::memcpy(&own[i], table.data(), sizeof(float) * std::min(table.size(), own.size() - i));
  };
  return median(ranks, bytes, fill, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    ready.meet(rank); // a peer's vector may be read only after the peer has arrived
    const bool small = count < 4096;
    const std::size_t from = small ? 0 : count * r / p, to = small ? count : count * (r + 1) / p;
    float* const sum = out[r].data();
    for (std::size_t i = from; i < to; ++i) {
      float value = in[0][i];
      for (std::size_t q = 1; q < p; ++q) value += in[q][i];
      sum[i] = value;
    }
    if (small) return;
    middle.meet(rank);
    for (std::size_t q = 0; q < p; ++q) {
      const std::size_t begin = count * q / p, end = count * (q + 1) / p;
      if (q != r) std::memcpy(sum + begin, out[q].data() + begin, (end - begin) * sizeof(float));
    }
  });
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// Two connected sockets over the loopback interface.
std::pair<int, int> connectedPair(const std::string& congestion) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  if (bind(listener, reinterpret_cast<sockaddr*>(&at), length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length) != 0 ||
      connect(near, reinterpret_cast<sockaddr*>(&at), length) != 0)
    fail("loopback");
  const int far = accept(listener, nullptr, nullptr);
  close(listener);
  for (const int fd : {near, far}) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!congestion.empty() && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                                          static_cast<socklen_t>(congestion.size())) != 0)
      fail("congestion control");
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  return {near, far};
}

double tcp(std::size_t bytes, const std::string& congestion) {
  const auto [near, far] = connectedPair(congestion);
  const int ends[] = {near, far};
  std::vector<std::vector<char>> out(2, std::vector<char>(bytes, 1)), in = out;
  const double time = median(
      2, bytes, [&](int r) { std::fill(out[r].begin(), out[r].end(), 1); },
      [&](int rank) {
        const auto exchange = [&](std::size_t begin, std::size_t end) {
          std::size_t sent = begin, received = begin;
          while (sent < end || received < end) {
            if (sent < end)
              if (const auto n = write(ends[rank], out[rank].data() + sent, end - sent); n > 0)
                sent += static_cast<std::size_t>(n);
            if (received < end)
              if (const auto n = read(ends[rank], in[rank].data() + received, end - received);
                  n > 0)
                received += static_cast<std::size_t>(n);
          }
        };
        const std::size_t half = bytes < 4096 ? bytes : bytes / 2;
        exchange(0, half);
        exchange(half, bytes);
      });
  close(near);
  close(far);
  return time;
}

/// Two threads pass a number to and fro, each in a line of its own. The median of several parts.
double line() {
  constexpr int kParts = 9, kTurns = 5000;
  struct alignas(128) Line {
    std::atomic<int> number{0};
  };
  Line to, fro;
  std::thread other([&] {
    pin(1);
    for (int i = 1; i <= kParts * kTurns; ++i) {
      while (to.number.load(std::memory_order_acquire) != i) continue;
      fro.number.store(i, std::memory_order_release);
    }
  });
  pin(0);
  std::vector<double> times;
  for (int part = 0, i = 1; part < kParts; ++part) {
    const auto begin = Clock::now();
    for (const int end = i + kTurns; i < end; ++i) {
      to.number.store(i, std::memory_order_release);
      while (fro.number.load(std::memory_order_acquire) != i) continue;
    }
    const std::chrono::duration<double, std::nano> all = Clock::now() - begin;
    times.push_back(all.count() / (2 * kTurns));
  }
  other.join();
  std::sort(times.begin(), times.end());
  return times[kParts / 2];
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string congestion;
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "--congestion") {
      congestion = words[i + 1];
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i),
                  words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    }
  if (words.size() == 1 && words[0] == "line") return std::printf("%.1f\n", line()), 0;
  if (words.size() < 3 || (words[0] != "shm" && words[0] != "tcp"))
    return std::fprintf(stderr,
                        "usage: limit shm|tcp RANKS BYTES... [--congestion NAME]\n"
                        "       limit line\n"),
           2;
  const int ranks = std::atoi(words[1].c_str());
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t bytes = std::strtoull(words[i].c_str(), nullptr, 10);
    std::printf("%zu %.4f\n", bytes,
                words[0] == "shm" ? sharedMemory(ranks, bytes) : tcp(bytes, congestion));
  }
}
