// Threads that reduce or copy one large piece of memory together.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace rondo::engine {

/// The thread that calls run(), and `size - 1` others. These stay on the NUMA node on which the
/// team was made, because the rank's memory is there, and sleep when there is no work. Only one
/// thread at a time may call run().
class ThreadTeam {
 public:
  /// Smallest part, in bytes, that is worth a thread. It takes about 1 us. The other threads see
  /// new work within 0.1 us (35 us if they sleep, after a pause of 1 ms).
  static constexpr std::size_t kLeastPart = 16 << 10;

  /// Throws Error(system) if the threads cannot be created.
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  std::size_t size() const { return others_.size() + 1; }

  /// Runs job(0) to job(size() - 1) concurrently and returns when all have finished. They must not
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

  const pid_t process_; ///< the process that made the team: a forked child has none
  std::vector<std::thread> others_;
  Function function_ = nullptr; ///< null: the threads end
  void* job_ = nullptr;
  std::atomic<std::uint32_t> round_{0}; ///< counts calls of start(); the threads sleep on it
  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<std::size_t> left_{0}; ///< parts of this round that are not finished
};

} // namespace rondo::engine
