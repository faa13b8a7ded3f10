// The public class Group: records calls and starts them together.
#include "rondo/group.h"

#include <cmath>
#include <exception>
#include <utility>

#include "base/log.h"
#include "comm/pending_group.h"
#include "rondo/error.h"

namespace rondo {

Group::Group() : exceptions_(std::uncaught_exceptions()), begin_(comm::PendingGroup::enter()) {}

Group::~Group() {
  if (!open_) return;
  try {
    if (std::uncaught_exceptions() > exceptions_) comm::PendingGroup::drop(begin_);
    else end();
  } catch (const std::exception& error) {
    base::log(LogLevel::error, "a call of a Group failed: ", error.what());
  }
}

void Group::end() { leave(true).wait(); }

Work Group::start() { return leave(false); }

void Group::drop() {
  if (!open_) throw Error(ErrorCode::invalid_argument, "Group: drop() after the group has ended");
  open_ = false;
  comm::PendingGroup::drop();
}

std::chrono::nanoseconds Group::predict() const {
  return std::chrono::nanoseconds(std::llround(comm::PendingGroup::predict() * 1e9));
}

bool Group::isOpen() { return comm::PendingGroup::open(); }

Work Group::leave(bool attended) {
  if (!open_)
    throw Error(ErrorCode::invalid_argument, "Group: end() or start() after the group has ended");
  open_ = false;
  auto all = comm::PendingGroup::leave(attended);
  return all ? comm::WorkState::handle(std::move(all)) : Work();
}

} // namespace rondo
