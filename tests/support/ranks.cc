// Runs ranks as threads.
#include "support/ranks.h"

#include <exception>
#include <future>
#include <thread>

namespace rondo::test {

std::vector<Communicator> ranksOverSockets(int size, const Options& options) {
  const UniqueId id = UniqueId::create(options);
  std::vector<std::future<Communicator>> coming;
  for (int rank = 0; rank < size; ++rank)
    coming.push_back(Communicator::createAsync(Rendezvous::uniqueId(id, rank, size), options));
  std::vector<Communicator> ranks;
  for (auto& one : coming) ranks.push_back(one.get());
  return ranks;
}

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
