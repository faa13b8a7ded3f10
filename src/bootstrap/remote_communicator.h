// State of one communicator on a rank that is connected to a hub.
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
  const std::vector<int> members; ///< ranks of the job, by rank of the communicator
  std::atomic<std::uint32_t> failed{0};
  ProgressBoard board;
  std::atomic<std::uint64_t> exchanges{0};

  // Guarded by the membership's mutex.
  std::optional<Failure> failure;
  std::map<std::uint64_t, std::shared_ptr<Membership::Exchange>> open;
  Progress reported;
  std::optional<Stall> stall;           ///< the last one of a collective; a new hub is told, too
  std::optional<frames::Fail> proposed; ///< a failure that this rank reports, and a new hub too
  std::map<std::vector<bool>, std::uint64_t> shrunk; ///< number of shrinks, by staying ranks
  frames::Opening opening = frames::Opening::done;
  bool by_agreement = false; ///< as in frames::Roster
  bool asking = false;       ///< waits for the answer to an agree frame
  bool asked = false;        ///< that frame was sent to the present hub
  std::optional<frames::Agreed> agreed;
  bool excluded = false; ///< the other ranks agreed on a communicator without this one
  bool leaving = false;
  bool left = false;  ///< the hub has compared the last calls
  bool told = false;  ///< a call of this rank has thrown the failure
  bool first = false; ///< as in frames::Left
};

} // namespace rondo::bootstrap
