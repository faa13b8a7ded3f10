// Tests a rank whose engine stops in the middle of a step, while its heartbeats go on.
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Memory that stops the first thread that accesses it until it is released.
class Trap {
 public:
  static constexpr std::size_t kBytes = 64 << 10;

  Trap() {
    memory = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    released = touched = false;
    struct sigaction action {};
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    REQUIRE(::sigaction(SIGSEGV, &action, &before_) == 0);
  }
  ~Trap() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(memory, kBytes);
  }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

  static inline void* memory = nullptr;
  static inline std::atomic<bool> released{false}, touched{false};

 private:
  static void fault(int, siginfo_t* info, void*) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    if (at < begin || at >= begin + kBytes) std::abort();
    touched = true;
    const timespec pause{0, 1'000'000};
    while (!released) ::nanosleep(&pause, nullptr);
    if (::mprotect(memory, kBytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  }

  struct sigaction before_ {};
};

} // namespace

// Proves: heartbeats alone do not keep a call alive. The other ranks name the rank whose engine
// stands still, and when it continues it gets the same error.
TEST_CASE("an engine that stops within a step is named at the deadline, though its rank lives") {
  for (const char* transport : {"shm", "tcp"})
    for (const int size : {2, 3, 5}) {
      INFO(transport << ", " << size << " ranks");
      Options options = plainOptions(transport);
      options.timeout = std::chrono::seconds(2); // much longer than a rank needs to call
      options.heartbeat = std::chrono::milliseconds(200);
      std::vector<Communicator> ranks = ranksOverSockets(size, options);
      const Trap trap;
      std::vector<Caught> errors(ranks.size());
      std::atomic<int> told{0};
      onRanks(ranks, [&](Communicator& comm) -> std::string {
        const bool stops = comm.rank() == 1;
        std::vector<float> own(Trap::kBytes / sizeof(float), 1), sum(own);
        errors[static_cast<std::size_t>(comm.rank())] = caught([&] {
          // The root sends nothing, so only its engine reads its input, not the system.
          comm.reduce(stops ? Trap::memory : own.data(), sum.data(), own.size(), DataType::float32,
                      ReduceOp::sum, 1);
          comm.barrier();
        });
        if (++told == comm.size() - 1) Trap::released = true;
        return {};
      });
      CHECK(Trap::touched);
      for (const Caught& error : errors) {
        CHECK(says(error, ErrorCode::timeout, {"rank 1"}));
        CHECK(error.culprit == 1);
        CHECK(error.text == errors[0].text);
      }
    }
}

} // namespace rondo::test
