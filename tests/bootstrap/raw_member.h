// A rank whose control messages the test writes.
#pragma once

#include <sys/socket.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/codec.h"
#include "base/unique_fd.h"
#include "bootstrap/link.h"
#include "bootstrap/membership.h"
#include "net/connection.h"
#include "net/event_loop.h"

namespace rondo::test {

/// It knows the secret and the frames, and need not follow the rules. When it is destroyed, its
/// connection ends without a bye.
class RawMember {
 public:
  /// Connects to the hub.
  explicit RawMember(const bootstrap::Membership::Settings& settings)
      : loop_(net::EventLoop::get()) {
    net::Dial::Settings dial;
    dial.address = settings.hub;
    dial.secret = settings.secret;
    dial.hello.purpose = net::Hello::Purpose::control;
    dial.hello.job = settings.job;
    dial.hello.rank = settings.rank;
    dial.hello.size = settings.size;
    dial.deadline = settings.deadline;
    net::Dial dialing(dial);
    fd_ = dialing.wait().plain();
    key_ = dialing.sessionKey();
  }
  ~RawMember() {
    loop_->call([&] { link_.reset(); });
  }
  RawMember(const RawMember&) = delete;
  RawMember& operator=(const RawMember&) = delete;

  struct Raw {
    std::vector<std::byte> bytes;
    void write(base::Writer& out) const { out.raw(bytes); }
  };
  void frame(int type, const std::vector<std::byte>& body) {
    loop_->call([&] {
      if (!link_)
        link_ = bootstrap::Link::open(
            loop_, std::move(fd_), key_, bootstrap::Link::Side::member,
            {[this](bootstrap::frames::Type t, base::Reader& in) { received(t, in); }, {}});
      link_->send(static_cast<bootstrap::frames::Type>(type), Raw{body});
    });
  }
  template <class Body>
  void frame(bootstrap::frames::Type type, const Body& body) {
    base::Writer writer;
    body.write(writer);
    frame(static_cast<int>(type), writer.take());
  }
  void join() { frame(bootstrap::frames::Type::join, bootstrap::frames::Join{60'000, false}); }
  /// Bytes instead of frames; only before the first frame.
  void bytes(const std::vector<std::byte>& raw) {
    [[maybe_unused]] const ssize_t sent = ::send(fd_.get(), raw.data(), raw.size(), MSG_NOSIGNAL);
  }
  /// Waits until the hub counts this rank: it has sent a frame, at least a beat.
  bool counted() {
    return eventually([&] { return !heard_.empty(); });
  }
  /// Waits until the hub has sent such a frame, other than a failure.
  bool heard(bootstrap::frames::Type type) {
    return eventually([&] { return heard_.contains(type); });
  }
  /// Whether it has sent one so far.
  bool hasHeard(bootstrap::frames::Type type) {
    const std::lock_guard lock(mutex_);
    return heard_.contains(type);
  }
  /// Waits until the hub has sent the failure of this communicator.
  std::optional<bootstrap::Failure> failureOf(std::uint64_t communicator) {
    if (!eventually([&] { return failures_.contains(communicator); })) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return failures_.at(communicator);
  }
  /// Waits until the hub has told where so many ranks listen.
  bool knows(std::size_t ranks) {
    return eventually([&] { return listeners_.size() == ranks; });
  }

 private:
  template <class Condition>
  bool eventually(Condition met) {
    for (const base::Deadline limit(std::chrono::seconds(20)); !limit.passed();
         std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      const std::lock_guard lock(mutex_);
      if (met()) return true;
    }
    return false;
  }
  void received(bootstrap::frames::Type type, base::Reader& in) {
    const std::lock_guard lock(mutex_);
    if (type == bootstrap::frames::Type::failed) {
      const auto report = bootstrap::frames::Failed::read(in);
      failures_.emplace(report.communicator, report.failure);
      return;
    }
    heard_.insert(type);
    if (type == bootstrap::frames::Type::standbys)
      for (const auto& [rank, address] : bootstrap::frames::Standbys::read(in).ranks)
        listeners_.insert(rank);
    in.raw(in.left());
  }

  const std::shared_ptr<net::EventLoop> loop_;
  base::UniqueFd fd_;
  net::Key key_{};
  std::shared_ptr<bootstrap::Link> link_;
  std::mutex mutex_;
  std::set<bootstrap::frames::Type> heard_;
  std::set<int> listeners_;
  std::map<std::uint64_t, bootstrap::Failure> failures_;
};

} // namespace rondo::test
