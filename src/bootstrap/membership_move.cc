// The member's part when the control plane moves: hosts the new hub, or connects to it and sends
// this rank's state.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "bootstrap/hub.h"
#include "bootstrap/limits.h"
#include "bootstrap/process_jobs.h"
#include "bootstrap/remote_communicator.h"
#include "bootstrap/standby.h"

namespace rondo::bootstrap {

namespace {

using base::Clock;
using frames::Type;

/// Polling interval for that connection.
constexpr std::chrono::milliseconds kLook{1};

} // namespace

void Membership::succeed(const frames::Succeed& offer) {
  frames::Succeeded answer;
  dropOffered(); // a repeated offer: the hub opened for the first one has an old list
  try {
    if (leaving()) throw Error(ErrorCode::aborted, "this rank leaves too");
    const auto size = static_cast<std::size_t>(settings_.size);
    if (offer.expected.size() != size || present_.size() != size)
      throw Error(
          ErrorCode::transport,
          "the hub offered to move here, but named another number of ranks than the job has");
    Hub::Settings hub;
    hub.address = standby_->address();
    hub.address.port = 0;
    hub.secret = settings_.secret;
    hub.job = settings_.job;
    hub.size = settings_.size;
    const int host = settings_.rank;
    hub.succession =
        Hub::Succession{host,        job_,    offer.expected, present_,
                        generation_, nullptr, standbys_,      mayHaveMoved(host, false)};
    hub.succession->departed = offer.departed;
    answer.address = ProcessJobs::ofProcess().host(hub);
    std::lock_guard lock(mutex_);
    offered_ = answer.address;
  } catch (const Error& error) {
    base::log(LogLevel::info, "the control plane cannot move here: ", error.what());
  }
  link_->send(Type::succeeded, answer);
}

void Membership::moved(const frames::Moved& to) {
  link_->close();
  link_.reset();
  hosts_hub_ = ProcessJobs::ofProcess().hubOf(settings_.job) == to.address;
  {
    std::lock_guard lock(mutex_);
    host_ = to.host;
    moving_ = true;
    if (hosts_hub_) offered_.reset();
  }
  if (hosts_hub_) ProcessJobs::ofProcess().serve(settings_.job, standby_);
  dropOffered(); // this rank answered too late, and another one has taken the hub over
  // A patient rank waits for a host that is stopped, until it has ended.
  const bool patient = settings_.patient;
  dialHub(to.address, !patient, patient ? Clock::time_point::max() : Clock::now() + kMoveLimit);
}

bool Membership::leaving() const {
  std::lock_guard lock(mutex_);
  return std::all_of(communicators_.begin(), communicators_.end(), [&](const auto& item) {
    return item.second == world_ || item.second->leaving;
  });
}

void Membership::dropOffered() {
  std::optional<net::SocketAddress> opened;
  {
    std::lock_guard lock(mutex_);
    opened = std::exchange(offered_, std::nullopt);
    changed_->notify_all();
  }
  if (!opened) return;
  ProcessJobs& jobs = ProcessJobs::ofProcess();
  if (jobs.hubOf(settings_.job) == opened) jobs.dismiss(settings_.job);
}

net::Dial::Settings Membership::dialTo(const net::SocketAddress& address,
                                       Clock::time_point deadline) const {
  net::Dial::Settings dial;
  dial.address = address;
  dial.secret = settings_.secret;
  dial.hello.purpose = net::Hello::Purpose::control;
  dial.hello.job = settings_.job;
  dial.hello.rank = settings_.rank;
  dial.hello.size = settings_.size;
  dial.hello.tls = settings_.tls;
  dial.deadline = deadline;
  return dial;
}

void Membership::dialHub(const net::SocketAddress& address, bool patient,
                         Clock::time_point deadline) {
  net::Dial::Settings dial = dialTo(address, deadline);
  dial.patient = patient;
  try {
    dial_ = std::make_unique<net::Dial>(dial);
  } catch (const Error& error) {
    return moveFailed(error);
  }
  awaitMove();
}

void Membership::awaitMove() {
  try {
    if (auto socket = dial_->poll()) {
      const net::Key key = dial_->sessionKey();
      dial_.reset();
      openLink(std::move(*socket), key);
      tellAll();
      if (departing_) sayBye();
      return;
    }
  } catch (const Error& error) {
    return moveFailed(error);
  }
  move_timer_ = loop_->after(kLook, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->dial_) self->awaitMove();
  });
}

void Membership::tellAll() {
  std::lock_guard lock(mutex_);
  for (const auto& [id, communicator] : communicators_) {
    // If a rank does not report a communicator, the new hub assumes that the rank has left it.
    if (communicator->leaving || communicator->excluded) continue;
    for (const auto& part : frames::Roster::parts(id, communicator->members, communicator->opening,
                                                  communicator->by_agreement))
      link_->send(Type::roster, part);
    communicator->reported = {};
    communicator->asked = communicator->asking;
    if (communicator->asking) link_->send(Type::agree, frames::Agree{id});
    if (communicator->failure) {
      link_->send(Type::fail, frames::Fail{id, *communicator->failure, {}, {}});
      continue;
    }
    if (communicator->proposed) link_->send(Type::fail, *communicator->proposed);
    for (const auto& [index, exchange] : communicator->open) {
      exchange->sent = !exchange->done && !exchange->abandoned;
      if (exchange->sent) exchange->have = 0; // the old hub may have sent a part of the result
      const bool split = exchange->purpose == Purpose::split;
      if (exchange->sent)
        link_->send(Type::gather, frames::Gather{id, index, split, exchange->blob});
    }
    const auto& stall = communicator->stall;
    if (stall && stall->sequence > communicator->board.completed.load(std::memory_order_relaxed))
      link_->send(Type::stalled, frames::Stalled{id, *stall});
  }
  link_->send(Type::settled);
  if (search_) return; // that rank does not host the hub yet
  moving_ = false;
  changed_->notify_all();
}

} // namespace rondo::bootstrap
