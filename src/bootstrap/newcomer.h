// A rank that joins a communicator which grows: asks the hub for its rank.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/condition.h"
#include "bootstrap/frames.h"
#include "bootstrap/link.h"
#include "bootstrap/unique_id.h"
#include "net/event_loop.h"

namespace rondo::bootstrap {

/// Its connection tells the hub that the newcomer lives. It must stay until the rank has joined its
/// job: if it ends earlier, the hub reports the death of that rank to the others. One thread.
class Newcomer {
 public:
  /// Connects to the hub, with TLS if `tls`. Throws Error(init_failed), which says who refused and
  /// why.
  Newcomer(const IdContent& id, std::chrono::milliseconds limit, bool tls);
  ~Newcomer();
  Newcomer(const Newcomer&) = delete;
  Newcomer& operator=(const Newcomer&) = delete;

  /// Returns the rank and size that the hub gives it, once the other ranks grow. Throws
  /// Error(init_failed) at the limit, and if the hub refuses or ends.
  frames::Seat wait();

 private:
  struct State {
    std::mutex mutex;
    base::Condition changed;
    std::optional<frames::Seat> seat;
    std::string refused;
  };

  const std::string hub_;
  const base::Deadline deadline_;
  const std::shared_ptr<net::EventLoop> loop_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::shared_ptr<Link> link_; ///< loop thread only
};

} // namespace rondo::bootstrap
