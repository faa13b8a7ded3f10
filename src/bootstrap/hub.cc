// The hub's handling of members' requests: join, exchange, split, leave.
#include "bootstrap/hub.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/hub_impl.h"

namespace rondo::bootstrap {

namespace {

using base::Clock;

/// Open exchanges per communicator. An honest member never needs more.
constexpr std::size_t kMostRounds = 256;
/// Different job sizes that ranks may claim before one set of ranks is complete.
constexpr std::size_t kMostWorlds = 16;
/// Backlog of the listener when the job's size is not known.
constexpr int kPeersAtFirst = 64;

} // namespace

std::uint64_t worldId(std::uint64_t job, int size) {
  return childId(job, static_cast<std::uint64_t>(size), -1);
}

void Hub::Impl::start() {
  if (settings_.succession && settings_.succession->standby) {
    settings_.address = settings_.succession->standby->address();
    takeOver(*settings_.succession);
    return serve(settings_.succession->standby);
  }
  net::SharedAcceptor::Settings listen;
  listen.address = settings_.address;
  listen.secret = settings_.secret;
  listen.key = {net::Hello::Purpose::control, settings_.job, 0, 0};
  listen.peers = settings_.size > 0 ? settings_.size : kPeersAtFirst;
  acceptor_ =
      std::make_unique<net::SharedAcceptor>(listen, [weak = weak_from_this()](net::Accepted peer) {
        if (const auto self = weak.lock()) self->accept(std::move(peer));
      });
  settings_.address = acceptor_->address();
  if (settings_.succession) takeOver(*settings_.succession);
}

void Hub::Impl::serve(const std::shared_ptr<Standby>& standby) {
  standby_ = standby;
  standby_->give([weak = weak_from_this()](net::Accepted peer) {
    if (const auto self = weak.lock()) self->accept(std::move(peer));
  });
}

void Hub::Impl::stop() {
  stopped_ = true;
  acceptor_.reset();
  if (standby_) standby_->give(nullptr);
  loop_->cancel(tick_);
  loop_->cancel(settle_timer_);
  loop_->cancel(probe_timer_);
  loop_->cancel(offer_timer_);
  loop_->cancel(ask_timer_);
  refuseNewcomers("the process that served this id has ended, or withdrew it");
  for (auto& [size, world] : worlds_) {
    for (auto& [id, group] : world.groups) dropTimers(*group);
    for (auto& [rank, member] : world.members) {
      if (member->reachable()) member->link->send(Type::farewell);
      member->link->close();
    }
  }
  worlds_.clear();
}

bool Hub::Impl::withdraw() {
  bool ended = false;
  loop_->call([&] {
    if (met()) return;
    stop();
    ended = true;
  });
  return ended;
}

void Hub::Impl::closeListener() {
  if (acceptor_) rejected_ += acceptor_->rejected();
  acceptor_.reset();
}

void Hub::Impl::closeIfAllCame(const World& world) {
  if (!acceptor_ || !world.complete || !world.awaited.empty()) return;
  if (!world.away.empty() || !world.probes.empty()) return; // unseen() takes longer
  // Else it stays open, so that a late rank is told that it is excluded.
  if (unseen(world).empty()) closeListener();
}

std::uint64_t Hub::Impl::acceptorRejected() const {
  std::uint64_t count = 0;
  loop_->call([&] { count = acceptor_ ? acceptor_->rejected() : 0; });
  return count;
}

// Joining -----------------------------------------------------------------------------------------

void Hub::Impl::accept(net::Accepted peer) {
  if (stopped_ || (!acceptor_ && !standby_)) return; // the listener is closed
  if (peer.hello.communicator == Standby::kExcludes) return mayBeReplaced();
  if (peer.hello.size == 0 && peer.hello.purpose == net::Hello::Purpose::control)
    return knock(std::move(peer));
  if (tick_ == 0) scheduleTick(); // without members there is nothing to check
  const int rank = peer.hello.rank, size = peer.hello.size;
  std::string wrong = whyRefused(peer.hello);
  if (wrong.empty()) wrong = otherTls(makeWorld(size), peer.hello);
  if (!wrong.empty()) {
    ++rejected_;
    // Repeats are only traced, since a rank may try again and again. So is every reason after 64.
    constexpr std::size_t kMostReasons = 64;
    const bool tell = refusals_.size() < kMostReasons && refusals_.insert(wrong).second;
    base::log(tell ? LogLevel::warn : LogLevel::trace, "a rank was refused: ", wrong);
    auto link = Link::open(loop_, std::move(peer.socket), peer.session_key, Link::Side::hub, {});
    link->send(Type::refused, tooLate(peer.hello).value_or(frames::Refused{wrong}));
    link->close();
    return;
  }
  if (settings_.succession) limitComing();
  World& world = worlds_.at(size);
  auto member = std::make_shared<Member>();
  member->rank = rank;
  auto weak = weak_from_this();
  member->link = Link::open(loop_, std::move(peer.socket), peer.session_key, Link::Side::hub,
                            {[weak, size, rank](Type type, base::Reader& in) {
                               if (const auto self = weak.lock())
                                 self->received(size, rank, type, in);
                             },
                             [weak, size, rank](const std::string& why) {
                               if (const auto self = weak.lock()) self->lost(size, rank, why);
                             },
                             [weak, size, rank](int version) {
                               if (const auto self = weak.lock())
                                 self->lostFor(version, size, rank);
                             }});
  member->silence.heard(Clock::now());
  member->echo.heard(Clock::now());
  world.members[rank] = member;
}

World& Hub::Impl::makeWorld(int size) {
  World& world = worlds_[size];
  if (world.root) return world;
  world.size = size;
  std::vector<int> all(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) all[static_cast<std::size_t>(r)] = r;
  world.root = std::make_shared<Group>(worldId(settings_.job, size), std::move(all));
  world.groups[world.root->id] = world.root;
  failForEnded(world);
  return world;
}

std::optional<frames::Refused> Hub::Impl::tooLate(const net::Hello& hello) const {
  const auto found = worlds_.find(hello.size);
  if (!settings_.succession || found == worlds_.end()) return std::nullopt;
  const World& world = found->second;
  const auto member = world.members.find(hello.rank);
  const bool here = member != world.members.end() && !member->second->gone;
  if (here || !world.complete || world.gone.contains(hello.rank)) return std::nullopt;
  return frames::Refused{
      "the other ranks replaced the control plane's host before this rank "
      "reached the new one",
      ErrorCode::unresponsive, welcome_.host};
}

std::string Hub::Impl::whyRefused(const net::Hello& hello) {
  const std::string who =
      "rank " + std::to_string(hello.rank) + " of " + std::to_string(hello.size);
  if (hello.purpose != net::Hello::Purpose::control) return who + ": not a control connection";
  if (hello.size < 1 || hello.size > kMostRanks || hello.rank < 0 || hello.rank >= hello.size)
    return who + ": no such rank can exist";
  if (settings_.size != 0 && hello.size != settings_.size)
    return who + ": this job has " + std::to_string(settings_.size) + " ranks";
  const auto found = worlds_.find(hello.size);
  if (found == worlds_.end())
    return worlds_.size() < kMostWorlds ? "" : who + ": too many different sizes are claimed";
  const World& world = found->second;
  if (world.complete && !world.awaited.contains(hello.rank))
    return who + ": this rank has left the job";
  if (!world.members.contains(hello.rank)) return "";
  if (world.root->ledger.failure()) return world.root->ledger.failure()->text;
  return who + ": this rank has joined already";
}

std::string Hub::Impl::otherTls(World& world, const net::Hello& hello) {
  if (!world.first) world.first = {hello.rank, hello.tls};
  if (world.first->tls == hello.tls) return "";
  const Failure different = differentTls(hello.rank, hello.tls, world.first->rank);
  failGroup(world, *world.root, different);
  return different.text;
}

void Hub::Impl::join(World& world, Member& member, const frames::Join& join) {
  if (member.joined) violation("a rank joined twice");
  const std::chrono::milliseconds heartbeat(join.heartbeat_ms);
  if (heartbeat < Options::kShortestHeartbeat || heartbeat > Options::kLongestHeartbeat)
    violation("a rank asked for a heartbeat of " + std::to_string(join.heartbeat_ms) + " ms");
  member.joined = true;
  member.hosts_hub = join.hosts_hub;
  member.heartbeat = heartbeat;
  member.patient = join.patient;
  generation_ = std::max(generation_, join.generation);
  if (join.standby) world.standbys[member.rank] = *join.standby;
  heartbeat_ = std::min(heartbeat_, member.heartbeat);
  // Not at every join: joins in quick succession would put off the beats of those that have joined.
  if (const auto period = beatPeriod(member.heartbeat); period < tick_period_) {
    tick_period_ = period;
    loop_->cancel(tick_);
    scheduleTick();
  }
  if (const auto& failure = world.root->ledger.failure())
    member.link->send(Type::failed, frames::Failed{world.root->id, *failure});
  if (world.complete || static_cast<int>(world.members.size()) < world.size) return;
  for (const auto& [rank, other] : world.members)
    if (!other->joined) return;
  complete(world);
}

void Hub::Impl::complete(World& world) {
  world.complete = true;
  settings_.size = world.size;
  closeListener();
  refuseNewcomers("the ranks that it meant to join have met without it");
  for (const auto& [rank, member] : world.members)
    if (member->hosts_hub && welcome_.host < 0) welcome_.host = rank;
  toAll(world, *world.root, Type::welcome, welcome_);
  tellPresence(world);
  base::log(LogLevel::info, "all ", world.size, " ranks have joined");
  for (auto& [size, other] : worlds_) {
    if (size == world.size) continue;
    for (auto& [rank, member] : other.members) {
      member->link->send(Type::refused, frames::Refused{"rank " + std::to_string(rank) + " of " +
                                                        std::to_string(size) + ": this job has " +
                                                        std::to_string(world.size) + " ranks"});
      member->link->close();
      member->gone = true;
      ++rejected_;
    }
  }
}

// What members send -------------------------------------------------------------------------------

void Hub::Impl::received(int size, int rank, Type type, base::Reader& in) {
  const auto found = worlds_.find(size);
  if (found == worlds_.end() || stopped_) return;
  World& world = found->second;
  const std::shared_ptr<Member> keep = world.members.at(rank);
  Member& member = *keep;
  if (member.gone) return;
  member.silence.heard(Clock::now());
  if (!member.joined && type != Type::join) violation("it sent frames before it joined");
  switch (type) {
    case Type::join: join(world, member, frames::Join::read(in)); break;
    case Type::gather: gather(world, member, frames::Gather::read(in)); break;
    case Type::fail: fail(world, member, frames::Fail::read(in)); break;
    case Type::progress: progress(world, member, frames::ProgressReport::read(in)); break;
    case Type::stalled: stalled(world, member, frames::Stalled::read(in)); break;
    case Type::leave: leave(world, member, frames::Leave::read(in)); break;
    case Type::bye: bye(world, member); break;
    case Type::succeeded: succeeded(world, member, frames::Succeeded::read(in)); break;
    case Type::roster: roster(world, member, frames::Roster::read(in)); break;
    case Type::settled: settled(world, member.rank); break;
    case Type::shrink: shrink(world, member, frames::Shrink::read(in)); break;
    case Type::agree: agree(world, member, frames::Agree::read(in)); break;
    case Type::seat: seat(world, frames::Seat::read(in)); break;
    case Type::welcome:
    case Type::refused:
    case Type::gathered:
    case Type::failed:
    case Type::ask:
    case Type::beat:
    case Type::farewell:
    case Type::left:
    case Type::succeed:
    case Type::moved:
    case Type::present:
    case Type::standbys:
    case Type::agreed:
    case Type::seated: violation("it sent a frame that only the hub sends");
  }
  in.finish();
}

std::shared_ptr<Group> Hub::Impl::groupOf(World& world, const Member& member, std::uint64_t id) {
  const auto found = world.groups.find(id);
  if (found == world.groups.end()) return nullptr;
  if (!found->second->rank_of.contains(member.rank))
    violation("it named a communicator that it is not in");
  return found->second;
}

void Hub::Impl::gather(World& world, Member& member, frames::Gather contribution) {
  const auto group = groupOf(world, member, contribution.communicator);
  if (!group) return;
  if (const auto opens = group->opening.find(member.rank); opens != group->opening.end())
    opens->second = contribution.index;
  if (group->ledger.failure()) return;
  if (contribution.split) decodeSplit(contribution.blob); // an error ends the sender's link only
  Ledger& ledger = group->ledger;
  const int rank = group->rank_of[member.rank];
  const std::shared_ptr<Round> round = ledger.round(contribution.index);
  if (ledger.openRounds() > kMostRounds) violation("it opened too many exchanges");
  if (const auto cause = ledger.contributing(rank, *round, contribution.split))
    return failGroup(world, *group, *cause);
  if (!round->contribute(rank, contribution.split, std::move(contribution.blob)))
    violation("it contributed twice to one exchange");
  finishRound(world, *group, contribution.index);
}

void Hub::Impl::makeChildren(World& world, const Group& parent, std::uint64_t index,
                             const Blobs& blobs) {
  std::vector<std::pair<int, int>> color_key;
  for (const auto& blob : blobs) color_key.push_back(decodeSplit(blob));
  for (const auto& [color, ranks] : splitGroups(color_key)) {
    std::vector<int> members;
    for (const int rank : ranks) members.push_back(parent.members[static_cast<std::size_t>(rank)]);
    const std::uint64_t id = childId(parent.id, index, color);
    world.groups[id] = std::make_shared<Group>(id, std::move(members));
  }
}

void Hub::Impl::progress(World& world, Member& member, const frames::ProgressReport& report) {
  if (report.heard > member.heard) {
    member.heard = report.heard;
    member.echo.heard(Clock::now());
  }
  if (member.heard >= std::max<std::uint64_t>(awake_beat_, 1))
    world.changed |= world.maybe_moved.erase(member.rank) > 0;
  for (const auto& board : report.boards) {
    const auto group = groupOf(world, member, board.communicator);
    if (!group) continue;
    const int rank = group->rank_of[member.rank];
    group->ledger.setProgress(rank, {board.calls.entered, board.completed});
    if (report.answer_to != 0) group->ledger.setCalls(rank, board.calls);
    if (group->ledger.failure()) continue;
    if (const auto cause = group->ledger.compare(rank, board.calls))
      inquire(world, *group, Suspicion{*cause, rank, {}}, 0);
  }
  if (report.answer_to != 0) answered(world, member, report);
}

void Hub::Impl::leave(World& world, Member& member, const frames::Leave& report) {
  const auto group = groupOf(world, member, report.board.communicator);
  if (!group) return;
  const int rank = group->rank_of[member.rank];
  const CallReport& calls = report.board.calls;
  Ledger& ledger = group->ledger;
  ledger.setProgress(rank, {calls.entered, report.board.completed});
  ledger.setCalls(rank, calls);
  group->leaving.push_back(member.rank);
  if (!ledger.failure()) {
    if (const auto cause = ledger.compare(rank, calls))
      inquire(world, *group, Suspicion{*cause, rank, {}}, calls.entered);
    else if (ledger.anyBehind(calls.entered)) inquire(world, *group, {}, calls.entered);
  }
  leaveGroup(world, *group, rank);
}

void Hub::Impl::leaveGroup(World& world, Group& group, int rank) {
  if (const auto cause = group.ledger.leave(rank)) failGroup(world, group, *cause);
  if (group.accusation && group.accusation->hasLeft(group.ledger)) decideAccusation(world, group);
  if (group.inquiry) {
    group.inquiry->awaited.erase(group.members[static_cast<std::size_t>(rank)]);
    if (group.inquiry->awaited.empty()) conclude(world, group);
  } else {
    answerLeaving(world, group);
  }
  if (!group.ledger.allLeft() || &group == world.root.get()) return;
  dropTimers(group);
  world.groups.erase(group.id);
}

void Hub::Impl::answerLeaving(World& world, Group& group) {
  const bool different = group.ledger.failure() && group.ledger.failure()->difference;
  for (const int rank : std::exchange(group.leaving, {})) {
    const auto& member = world.members.at(rank);
    if (!member->reachable()) continue;
    const bool first = different && !std::exchange(group.said, true);
    member->link->send(Type::left, frames::Left{group.id, first});
  }
}

void Hub::Impl::bye(World& world, Member& member) {
  base::log(LogLevel::info, "rank ", member.rank, " has left the job");
  member.gone = true;
  world.maybe_moved.erase(member.rank); // otherwise it would not say bye to this hub
  askAgain(world);                      // first, so that nothing is decided before the answers
  const auto groups = world.groups;
  for (const auto& [id, group] : groups) {
    const auto rank = group->rank_of.find(member.rank);
    if (rank != group->rank_of.end() && !group->ledger.hasLeft(rank->second))
      leaveGroup(world, *group, rank->second);
  }
  member.link->close();
  rankEnded(world, member.rank);
  if (offered_.erase(member.rank) > 0) offer(member.rank);
  endIfAllGone(world);
}

void Hub::Impl::endIfAllGone(World& world) {
  if (!world.complete || !world.awaited.empty()) return;
  for (const auto& [rank, member] : world.members)
    if (!member->gone) return;
  // Posted, because the owner's callback destroys this hub.
  if (auto over = std::exchange(over_, nullptr)) loop_->post(std::move(over));
}

Hub::Hub(const Settings& settings, std::function<void()> over)
    : impl_(std::make_shared<Impl>(settings, std::move(over))) {
  impl_->loop()->call([this] { impl_->start(); });
  address_ = impl_->address();
}

Hub::~Hub() {
  if (!impl_->loop()->onLoopThread()) impl_->handOver(true);
  impl_->loop()->call([this] { impl_->stop(); });
}

bool Hub::handOver() { return impl_->handOver(false); }

void Hub::ended(int rank) { impl_->ended(rank); }

void Hub::mayBeReplaced() { impl_->mayBeReplaced(); }

void Hub::serve(const std::shared_ptr<Standby>& standby) { impl_->serve(standby); }

bool Hub::withdraw() { return impl_->withdraw(); }

int Hub::waiting() const { return impl_->waiting(); }

std::uint64_t Hub::rejected() const { return impl_->rejected(); }

} // namespace rondo::bootstrap
