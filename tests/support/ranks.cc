// Runs ranks as threads.
#include "support/ranks.h"

#include <exception>
#include <thread>

namespace rondo::test {

std::vector<std::string> onRanks(std::vector<Communicator>& ranks,
                                 const std::function<std::string(Communicator&)>& body) {
  std::vector<std::string> complaints(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        complaints[r] = body(ranks[r]);
      } catch (const std::exception& error) {
        complaints[r] = std::string("threw: ") + error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return complaints;
}

std::string firstComplaint(const std::vector<std::string>& complaints) {
  for (std::size_t r = 0; r < complaints.size(); ++r)
    if (!complaints[r].empty()) return "rank " + std::to_string(r) + ": " + complaints[r];
  return {};
}

} // namespace rondo::test
