// The member's side of the control plane: what its thread does with frames of the hub, and what it
// does periodically.
#include <algorithm>
#include <utility>

#include "base/awake.h"
#include "base/log.h"
#include "bootstrap/limits.h"
#include "bootstrap/membership.h"
#include "bootstrap/process_jobs.h"
#include "bootstrap/remote_communicator.h"
#include "rondo/error.h"

namespace rondo::bootstrap {

using base::Clock;
using frames::Opening;
using frames::Type;

namespace {

/// New calls are reported at least this often, so that differences are known within a second.
constexpr std::chrono::milliseconds kReportPeriod{250};

} // namespace

void Membership::received(Type type, base::Reader& in) {
  silence_.heard(Clock::now());
  switch (type) {
    case Type::welcome: welcomed(frames::Welcome::read(in)); break;
    case Type::refused: refused(frames::Refused::read(in)); break;
    case Type::present: present(frames::Present::read(in)); break;
    case Type::standbys: standbys(frames::Standbys::read(in)); break;
    case Type::agreed: agreed(frames::Agreed::read(in)); break;
    case Type::gathered: gathered(frames::Gathered::read(in)); break;
    case Type::failed: failed(frames::Failed::read(in)); break;
    case Type::ask: answer(frames::Ask::read(in)); break;
    case Type::beat: beat(frames::Beat::read(in)); break;
    case Type::left: left(frames::Left::read(in)); break;
    case Type::succeed: succeed(frames::Succeed::read(in)); break;
    case Type::moved: moved(frames::Moved::read(in)); break;
    case Type::farewell: {
      base::log(LogLevel::info, "the control plane has ended; calls continue without it");
      dropOffered();
      std::lock_guard lock(mutex_);
      supervised_ = false;
      changed_->notify_all();
      break;
    }
    case Type::join:
    case Type::gather:
    case Type::fail:
    case Type::progress:
    case Type::stalled:
    case Type::leave:
    case Type::bye:
    case Type::succeeded:
    case Type::roster:
    case Type::settled:
    case Type::shrink:
    case Type::agree:
    case Type::seat: in.fail("is one that only members send");
    case Type::seated: in.fail("is for newcomers");
  }
  in.finish();
}

void Membership::welcomed(const frames::Welcome& welcome) {
  std::lock_guard lock(mutex_);
  if (welcome_) throw Error(ErrorCode::transport, "the hub sent a second welcome");
  welcome_ = true;
  met_ = !world_->failure; // the last rank that is missing may come after the start has failed
  host_ = welcome.host;
  job_ = welcome.job;
  if (!secret_.present) secret_ = welcome.secret;
}

void Membership::gathered(frames::Gathered part) {
  std::uint64_t orphan = 0;
  {
    std::lock_guard lock(mutex_);
    const auto found = communicators_.find(part.communicator);
    if (found == communicators_.end()) return;
    RemoteCommunicator& communicator = *found->second;
    const auto open = communicator.open.find(part.index);
    if (open == communicator.open.end()) return;
    Exchange& exchange = *open->second;
    if (part.first != exchange.have || part.blobs.size() > exchange.blobs.size() - exchange.have)
      throw Error(ErrorCode::transport, "parts of an exchange arrived out of order");
    for (auto& blob : part.blobs) exchange.blobs[exchange.have++] = std::move(blob);
    if (exchange.have < exchange.blobs.size()) return;
    if (exchange.purpose == Purpose::split) {
      exchange.child = makeChild(communicator, part.index, exchange.blobs);
      // The caller of split() has given up.
      if (exchange.child && exchange.abandoned) {
        orphan = exchange.child->id;
        communicators_.erase(orphan);
      }
    }
    exchange.done = true;
    if (communicator.opening == Opening::young) communicator.opening = Opening::started;
    if (exchange.purpose == Purpose::opened && !exchange.abandoned)
      communicator.opening = Opening::done;
    if (exchange.abandoned) communicator.open.erase(open);
    changed_->notify_all();
  }
  if (orphan != 0) link_->send(Type::leave, frames::Leave{{orphan, 0, {}}});
}

std::shared_ptr<RemoteCommunicator> Membership::makeChild(const RemoteCommunicator& parent,
                                                          std::uint64_t index, const Blobs& blobs) {
  std::vector<std::pair<int, int>> color_key;
  for (const auto& blob : blobs) color_key.push_back(decodeSplit(blob));
  const int color = color_key[static_cast<std::size_t>(parent.rank)].first;
  const auto groups = splitGroups(color_key);
  const auto group = groups.find(color);
  if (group == groups.end()) return nullptr;
  const auto own = std::find(group->second.begin(), group->second.end(), parent.rank);
  std::vector<int> members;
  for (const int rank : group->second)
    members.push_back(parent.members[static_cast<std::size_t>(rank)]);
  auto child = std::make_shared<RemoteCommunicator>(childId(parent.id, index, color),
                                                    static_cast<int>(own - group->second.begin()),
                                                    std::move(members));
  communicators_[child->id] = child;
  return child;
}

void Membership::failed(const frames::Failed& report) {
  std::lock_guard lock(mutex_);
  const auto found = communicators_.find(report.communicator);
  if (found != communicators_.end()) setFailure(*found->second, report.failure);
}

void Membership::left(const frames::Left& answer) {
  std::lock_guard lock(mutex_);
  const auto found = communicators_.find(answer.communicator);
  if (found == communicators_.end()) return;
  found->second->left = true;
  found->second->first = answer.first;
  changed_->notify_all();
}

std::string Membership::hubText() const {
  if (host_ >= 0) return "rank " + std::to_string(host_) + " of the job";
  return settings_.hub_process + " at " + settings_.hub.text();
}

void Membership::setFailure(RemoteCommunicator& communicator, Failure failure) {
  if (communicator.failure) return;
  if (failure.culprit >= static_cast<int>(communicator.members.size())) failure.culprit = -1;
  if (failure.difference)
    failure.text = failure.difference->text(communicator.board.describe.load());
  communicator.failure = std::move(failure);
  raise(communicator.failed);
  changed_->notify_all();
  communicator.board.failed.tell(*communicator.failure, true);
}

void Membership::failAll(bool lost,
                         const std::function<Failure(const RemoteCommunicator&, int)>& verdict) {
  const auto communicators = communicators_;
  for (const auto& [id, communicator] : communicators) {
    const auto& members = communicator->members;
    const auto host = std::find(members.begin(), members.end(), host_);
    const int culprit = host == members.end() ? -1 : static_cast<int>(host - members.begin());
    const auto opening = communicator->opening;
    // One that was made without the host waits for the next hub.
    if (opening == Opening::young && culprit < 0) continue;
    const Failure failure = verdict(*communicator, culprit);
    // Another rank may have finished opening it. The next hub learns that, and then decides.
    if (opening != Opening::started) setFailure(*communicator, failure);
    else if (lost) communicator->proposed = frames::Fail{communicator->id, failure, {}, {}};
  }
  changed_->notify_all();
}

void Membership::hubLost(ErrorCode code, const std::string& what) {
  dropOffered();
  if (search_) return seek(); // a rank that did not become the host
  if (departing_) return departed();
  {
    std::lock_guard lock(mutex_);
    if (!supervised_) return;
    if (!welcome_) {
      supervised_ = false;
      if (code == ErrorCode::peer_dead) code = ErrorCode::init_failed;
    }
    failAll(true, [&](const RemoteCommunicator&, int culprit) -> Failure {
      const std::string who = culprit >= 0 ? hostName(culprit, host_) : hubText();
      return {code, who + ", which hosts the control plane, " + what, culprit};
    });
    if (!supervised_) return;
  }
  startSearch(code == ErrorCode::unresponsive);
}

void Membership::hubUnheard(std::chrono::milliseconds limit) {
  std::lock_guard lock(mutex_);
  if (!supervised_) return;
  failAll(false, [&](const RemoteCommunicator& communicator, int culprit) {
    const std::string host = culprit >= 0 ? hostName(culprit, host_) : hubText();
    return Ledger::unheardHost(host, culprit, communicator.rank, limit);
  });
}

void Membership::noticeStop() {
  const auto now = Clock::now();
  if (gap_.late(now) > kMissed) late_ = now;
  if (settings_.patient) return; // the others wait for this rank
  if (mayBeExcluded(gap_.late(now), settings_.heartbeat)) awake_ = now;
}

void Membership::beat(const frames::Beat& news) {
  heard_ = news.number;
  // Beats that were sent before this process woke arrive at once.
  if (awake_ && Clock::now() - *awake_ > settings_.heartbeat) awake_.reset();
}

void Membership::scheduleTick() {
  const auto period = std::min(beatPeriod(settings_.heartbeat), kReportPeriod);
  gap_.expect(Clock::now() + period);
  tick_ = loop_->after(period, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick();
  });
}

void Membership::tick() {
  const auto late = gap_.late(Clock::now());
  noticeStop();
  scheduleTick();
  if (!link_) return; // while it moves, another deadline applies
  const auto now = Clock::now();
  silence_.forgive(late, now);
  const auto limit = silenceLimit(settings_.heartbeat);
  if (!settings_.patient && !search_ && silence_.longerThan(limit, now)) {
    hubUnheard(limit);
    // A heartbeat later, so that a hub that lives can decide first.
    if (silence_.longerThan(limit + settings_.heartbeat, now)) {
      link_->close();
      hubLost(ErrorCode::unresponsive, "does not respond");
    }
  }
  report();
}

frames::ProgressReport::Board Membership::boardOf(const RemoteCommunicator& communicator,
                                                  std::uint64_t reported) {
  const ProgressBoard& board = communicator.board;
  return {communicator.id, board.completed.load(std::memory_order_relaxed),
          board.calls.since(reported)};
}

void Membership::report() {
  if (!link_) return;
  std::vector<frames::ProgressReport::Board> boards;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, communicator] : communicators_) {
      const Progress progress = Progress::of(communicator->board);
      if (progress == communicator->reported) continue;
      boards.push_back(boardOf(*communicator, communicator->reported.entered));
      communicator->reported = {boards.back().calls.entered, boards.back().completed};
    }
  }
  const auto now = Clock::now();
  if (boards.empty() && now < next_beat_) return;
  next_beat_ = now + beatPeriod(settings_.heartbeat);
  for (const auto& part : frames::ProgressReport::parts(heard_, 0, std::move(boards)))
    link_->send(Type::progress, part);
}

void Membership::answer(const frames::Ask& ask) {
  frames::ProgressReport report{heard_, ask.number, {}};
  {
    std::lock_guard lock(mutex_);
    const auto found = communicators_.find(ask.communicator);
    if (found != communicators_.end()) report.boards.push_back(boardOf(*found->second, 0));
  }
  link_->send(Type::progress, report);
}

} // namespace rondo::bootstrap
