// Tests that tasks are handed out to whichever rank is free, and what ends the handing out.
#include "tools/train_share.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "rondo/error.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"

namespace rondo::test {

using tools::shareTasks;
using tools::Sharing;

namespace {

std::vector<std::string> numbered(int count) {
  std::vector<std::string> tasks;
  for (int i = 0; i < count; ++i) tasks.push_back("task " + std::to_string(i));
  return tasks;
}

void run(int size, const std::function<void(Communicator&)>& body) {
  std::vector<Communicator> ranks = Communicator::createAll(size, plainOptions());
  const auto complaints = onRanks(ranks, [&](Communicator& comm) {
    body(comm);
    return std::string();
  });
  REQUIRE(firstComplaint(complaints) == "");
}

void waitFor(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) throw std::runtime_error("waited in vain");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

} // namespace

TEST_CASE("each task is done once and its result arrives at rank 0, on any number of ranks",
          "[threads]") {
  for (const int ranks : {1, 2, 5})
    for (const int count : {0, 1, 4, 33}) {
      INFO(ranks << " ranks, " << count << " tasks");
      const auto tasks = numbered(count);
      std::vector<std::string> results(tasks.size());
      run(ranks, [&](Communicator& comm) {
        const bool all = shareTasks(
            comm, comm.rank() == 0 ? tasks : std::vector<std::string>{},
            {.work = [](const std::string& task, const auto&) { return "done: " + task; },
             .took = [&](std::size_t task,
                         const std::string& result) { results[task] += result; }});
        if (!all) throw std::runtime_error("not all tasks were done");
      });
      for (std::size_t i = 0; i < tasks.size(); ++i) REQUIRE(results[i] == "done: " + tasks[i]);
    }
}

TEST_CASE("a rank with a long task does not keep the other ranks from doing the rest",
          "[threads]") {
  for (const int slow : {0, 1, 2}) {
    std::atomic<int> done{0};
    run(3, [&](Communicator& comm) {
      shareTasks(comm, numbered(20),
                 {.work =
                      [&](const std::string& task, const auto&) {
                        if (comm.rank() == slow) waitFor([&] { return done == 19; });
                        return task;
                      },
                  .took = [&](std::size_t, const std::string&) { ++done; }});
    });
    REQUIRE(done == 20);
  }
}

TEST_CASE("after a stop no rank begins another task", "[threads]") {
  for (const int stopped : {0, 1}) {
    std::atomic<int> begun{0}, not_all{0};
    std::atomic<bool> stop{false};
    run(2, [&](Communicator& comm) {
      const bool all = shareTasks(
          comm, numbered(50),
          {.work = [&](const std::string& task, const auto&) -> std::optional<std::string> {
             ++begun;
             if (comm.rank() != stopped) {
               waitFor([&] { return stop.load(); });
               std::this_thread::sleep_for(std::chrono::milliseconds(50));
               return task;
             }
             stop = true;
             return std::nullopt;
           },
           .took = [](std::size_t, const std::string&) {}});
      if (!all) ++not_all;
    });
    INFO("rank " << stopped);
    REQUIRE(begun <= 3);
    REQUIRE(not_all >= 1);
  }
}

TEST_CASE("a result that cannot be kept ends the tasks of all ranks with one error", "[threads]") {
  for (const std::string at : {"task 0", "task 1"}) { // of rank 0, or of another one
    std::atomic<int> ended{0};
    run(2, [&](Communicator& comm) {
      const auto work = [&](const std::string& task,
                            const auto& stop) -> std::optional<std::string> {
        if (task == at) return task;
        waitFor(stop);
        return std::nullopt;
      };
      try {
        shareTasks(comm, numbered(50), {.work = work, .took = [](std::size_t, const std::string&) {
                                          throw Error(ErrorCode::system, "disk full");
                                        }});
      } catch (const Error& error) {
        if (contains(error.what(), "disk full")) ++ended;
      }
    });
    INFO(at);
    REQUIRE(ended == 2);
  }
}

} // namespace rondo::test
