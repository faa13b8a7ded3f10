// One communicator, as a rank that is connected to a hub is in it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bootstrap/membership.h"

namespace rondo::bootstrap {

struct RemoteCommunicator {
  RemoteCommunicator(std::uint64_t i, int r, std::vector<int> m)
      : id(i), rank(r), members(std::move(m)) {}

  const std::uint64_t id;
  const int rank;
  const std::vector<int> members; ///< the job's ranks, by the communicator's
  std::atomic<std::uint32_t> failed{0};
  ProgressBoard board;
  std::atomic<std::uint64_t> exchanges{0};

  // Guarded by the membership's mutex.
  std::optional<Failure> failure;
  std::map<std::uint64_t, std::shared_ptr<Membership::Exchange>> open;
  Progress reported;
  std::optional<Stall> stall;                        ///< the last one that the hub was told
  std::optional<frames::Fail> proposed;              ///< that the hub has not answered
  std::map<std::vector<bool>, std::uint64_t> shrunk; ///< how often, by who stayed
  bool leaving = false;
  bool left = false;  ///< the hub has compared the last calls
  bool told = false;  ///< this rank's callers know of the failure
  bool first = false; ///< as in frames::Left
};

} // namespace rondo::bootstrap
