// Threads that work on one large piece of memory together.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace rondo::engine {

/// The thread that calls run(), and `size - 1` others. They stay on the NUMA node on which the crew
/// was made, where the rank's memory is, and sleep while nothing is to be done. run() may be called
/// by one thread at a time.
class Crew {
 public:
  /// Bytes of one thread's part from which several pay: it takes about 1 us, and the others see in
  /// 0.1 us that there is work (after a pause of 1 ms, when they sleep: 35 us).
  static constexpr std::size_t kLeastPart = 16 << 10;

  /// Throws Error(system) when there are no threads to be had.
  explicit Crew(int size);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  std::size_t size() const { return others_.size() + 1; }

  /// Runs job(0) to job(size() - 1) at the same time and returns when all have. They must not
  /// throw.
  template <class Job>
  void run(Job& job) {
    start([](void* of, std::size_t part) { (*static_cast<Job*>(of))(part); }, &job);
    job(std::size_t{0});
    finish();
  }

 private:
  using Function = void (*)(void*, std::size_t);
  void start(Function function, void* job);
  void finish();
  void work(std::size_t part);
  void stop();

  const pid_t process_; ///< a forked child has no crew
  std::vector<std::thread> others_;
  Function function_ = nullptr; ///< null: the end
  void* job_ = nullptr;
  std::atomic<std::uint32_t> round_{0}; ///< counts what was started; they sleep on it
  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<std::size_t> left_{0}; ///< parts of this round that are not done
};

} // namespace rondo::engine
