// Ranks of one process on emulated devices, each with a stream of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/collective_case.h"
#include "support/host_devices.h"
#include "support/ranks.h"

namespace rondo::test {

/// Declared so that the streams outlive the communicators that use them.
class DeviceRanks {
 public:
  /// Rank r uses device r modulo the number of devices. `on_node`: the ranks of each node; 0: all
  /// are on this one.
  DeviceRanks(int ranks, Options options, int devices = 1, int on_node = 0) {
    const Rendezvous meet = Rendezvous::inProcess(ranks);
    std::vector<std::optional<Communicator>> made(static_cast<std::size_t>(ranks));
    std::vector<std::exception_ptr> errors(made.size());
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        options.device = rank % devices;
        if (on_node > 0) options.node = "node " + std::to_string(rank / on_node);
        threads.emplace_back([&, rank, options, at = static_cast<std::size_t>(rank)] {
          try {
            made[at].emplace(Communicator::create(meet.as(rank), options));
          } catch (...) {
            errors[at] = std::current_exception();
          }
        });
      }
    }
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
    for (auto& one : made) {
      streams_.push_back(std::make_unique<HostStream>());
      all.push_back(std::move(*one));
      all.back().setStream(streams_.back()->handle());
    }
  }
  HostStream& stream(const Communicator& comm) {
    return *streams_[static_cast<std::size_t>(comm.rank())];
  }

  /// Runs every case on every rank. Returns the first complaint, or an empty string.
  std::string run(const std::vector<CollectiveCase>& cases) {
    return firstComplaint(onRanks(all, [&](Communicator& comm) -> std::string {
      for (const CollectiveCase& one : cases)
        if (std::string wrong = one.run(comm); !wrong.empty()) return wrong;
      return {};
    }));
  }

 private:
  std::vector<std::unique_ptr<HostStream>> streams_;

 public:
  std::vector<Communicator> all;
};

inline Options onDevice(const std::string& transports = "", const std::string& algorithm = "") {
  Options options = plainOptions(transports, algorithm);
  options.device = 0;
  return options;
}

} // namespace rondo::test
