// The hub's state and rules. All of it belongs to the loop thread.
#include "bootstrap/hub.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/hub_state.h"
#include "net/event_loop.h"
#include "rondo/error.h"

namespace rondo::bootstrap {

namespace {

using base::Clock;
using frames::Type;

/// How long a timeout waits for the ranks' counters.
constexpr std::chrono::milliseconds kAskLimit{100};
/// What a process sent before its end, such as its good-bye, has arrived by then.
constexpr std::chrono::milliseconds kLastWords{100};
/// Of one communicator; more is no honest member's doing.
constexpr std::size_t kMostRounds = 256;
/// Different job sizes that ranks may claim before any set is complete.
constexpr std::size_t kMostWorlds = 16;

[[noreturn]] void violation(const std::string& what) { throw Error(ErrorCode::transport, what); }

} // namespace

std::uint64_t worldId(std::uint64_t job, int size) {
  return childId(job, static_cast<std::uint64_t>(size), -1);
}

class Hub::Impl : public std::enable_shared_from_this<Hub::Impl> {
 public:
  Impl(const Settings& settings, std::function<void()> over)
      : settings_(settings), over_(std::move(over)), loop_(net::EventLoop::get()) {
    welcome_.job = settings.job;
    welcome_.secret = settings.secret.present ? net::Secret{} : net::Secret::random();
  }

  void start() {
    net::Acceptor::Settings listen;
    listen.address = settings_.address;
    listen.secret = settings_.secret;
    listen.job = settings_.job;
    if (settings_.size > 0) listen.half_open_limit = settings_.size + 64;
    acceptor_ =
        std::make_unique<net::Acceptor>(listen, [weak = weak_from_this()](net::Accepted peer) {
          if (const auto self = weak.lock()) self->accept(std::move(peer));
        });
    settings_.address = acceptor_->address();
    scheduleTick();
  }

  void stop() {
    stopped_ = true;
    acceptor_.reset();
    loop_->cancel(tick_);
    for (auto& [size, world] : worlds_) {
      for (auto& [id, group] : world.groups)
        if (group->timeout) loop_->cancel(group->timeout->timer);
      for (auto& [rank, member] : world.members) {
        if (member->reachable()) member->link->send(Type::farewell);
        member->link->close();
      }
    }
    worlds_.clear();
  }

  void ended(int rank) {
    loop_->after(kLastWords, [weak = weak_from_this(), rank] {
      const auto self = weak.lock();
      if (!self) return;
      std::vector<int> sizes; // losing a rank may change the worlds
      for (const auto& [size, world] : self->worlds_)
        if (world.members.contains(rank)) sizes.push_back(size);
      for (const int size : sizes) self->lost(size, rank, "its process has ended");
    });
  }

  const std::shared_ptr<net::EventLoop>& loop() const { return loop_; }
  const net::SocketAddress& address() const { return settings_.address; }
  std::uint64_t rejected() const { return rejected_.load() + acceptorRejected(); }

 private:
  std::uint64_t acceptorRejected() const {
    std::uint64_t count = 0;
    loop_->call([&] { count = acceptor_ ? acceptor_->rejected() : 0; });
    return count;
  }

  // Joining -----------------------------------------------------------------------------------

  void accept(net::Accepted peer) {
    if (stopped_) return;
    const int rank = peer.hello.rank, size = peer.hello.size;
    const std::string wrong = whyRefused(peer.hello);
    if (!wrong.empty()) {
      ++rejected_;
      base::log(LogLevel::warn, "a rank was refused: ", wrong);
      auto link = Link::open(loop_, std::move(peer.fd), peer.session_key, Link::Side::hub, {});
      link->send(Type::refused, frames::Refused{wrong});
      link->close();
      return;
    }
    World& world = worlds_[size];
    if (!world.root) {
      world.size = size;
      std::vector<int> all(static_cast<std::size_t>(size));
      for (int r = 0; r < size; ++r) all[static_cast<std::size_t>(r)] = r;
      world.root = std::make_shared<Group>(worldId(settings_.job, size), std::move(all));
      world.groups[world.root->id] = world.root;
    }
    auto member = std::make_shared<Member>();
    member->rank = rank;
    auto weak = weak_from_this();
    member->link = Link::open(loop_, std::move(peer.fd), peer.session_key, Link::Side::hub,
                              {[weak, size, rank](Type type, base::Reader& in) {
                                 if (const auto self = weak.lock())
                                   self->received(size, rank, type, in);
                               },
                               [weak, size, rank](const std::string& why) {
                                 if (const auto self = weak.lock()) self->lost(size, rank, why);
                               }});
    member->silence.heard(Clock::now());
    world.members[rank] = member;
  }

  /// Empty: welcome.
  std::string whyRefused(const net::Hello& hello) {
    const std::string who =
        "rank " + std::to_string(hello.rank) + " of " + std::to_string(hello.size);
    if (hello.purpose != net::Hello::Purpose::control) return who + ": not a control connection";
    if (hello.size < 1 || hello.size > kMostRanks || hello.rank < 0 || hello.rank >= hello.size)
      return who + " makes no sense";
    if (settings_.size != 0 && hello.size != settings_.size)
      return who + ": this job has " + std::to_string(settings_.size) + " ranks";
    const auto found = worlds_.find(hello.size);
    if (found == worlds_.end())
      return worlds_.size() < kMostWorlds ? "" : who + ": too many different sizes are claimed";
    const World& world = found->second;
    if (!world.members.contains(hello.rank)) return "";
    if (world.root->ledger.failure()) return world.root->ledger.failure()->text;
    return who + ": this rank is here already";
  }

  void join(World& world, Member& member, const frames::Join& join) {
    if (member.joined) violation("a rank joined twice");
    if (join.heartbeat_ms < 1 || join.heartbeat_ms > 3'600'000)
      violation("a rank asked for a heartbeat of " + std::to_string(join.heartbeat_ms) + " ms");
    member.joined = true;
    member.hosts_hub = join.hosts_hub;
    member.heartbeat = std::chrono::milliseconds(join.heartbeat_ms);
    tick_period_ = std::min(tick_period_, beatPeriod(member.heartbeat));
    loop_->cancel(tick_);
    scheduleTick();
    if (const auto& failure = world.root->ledger.failure())
      member.link->send(Type::failed, frames::Failed{world.root->id, *failure});
    if (static_cast<int>(world.members.size()) < world.size) return;
    for (const auto& [rank, other] : world.members)
      if (!other->joined) return;
    complete(world);
  }

  void complete(World& world) {
    world.complete = true;
    settings_.size = world.size;
    if (acceptor_) rejected_ += acceptor_->rejected();
    acceptor_.reset();
    for (const auto& [rank, member] : world.members)
      if (member->hosts_hub && welcome_.host < 0) welcome_.host = rank;
    toAll(world, *world.root, Type::welcome, welcome_);
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

  // What members send -------------------------------------------------------------------------

  void received(int size, int rank, Type type, base::Reader& in) {
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
      case Type::welcome:
      case Type::refused:
      case Type::gathered:
      case Type::failed:
      case Type::ask:
      case Type::beat:
      case Type::farewell: violation("it sent a frame that only the hub sends");
    }
    in.finish();
  }

  /// Null when the communicator is over; a communicator that the member is not in is a violation.
  std::shared_ptr<Group> groupOf(World& world, const Member& member, std::uint64_t id) {
    const auto found = world.groups.find(id);
    if (found == world.groups.end()) return nullptr;
    if (!found->second->rank_of.contains(member.rank))
      violation("it spoke of a communicator that it is not in");
    return found->second;
  }

  void gather(World& world, Member& member, frames::Gather contribution) {
    const auto group = groupOf(world, member, contribution.communicator);
    if (!group || group->ledger.failure()) return;
    if (contribution.split) decodeSplit(contribution.blob); // its sender's fault, nobody else's
    Ledger& ledger = group->ledger;
    const int rank = group->rank_of[member.rank];
    const std::shared_ptr<Round> round = ledger.round(contribution.index);
    if (ledger.openRounds() > kMostRounds) violation("it opened too many exchanges");
    if (const auto verdict = ledger.contributing(rank, *round, contribution.split))
      return failGroup(world, *group, *verdict);
    if (!round->contribute(rank, contribution.split, std::move(contribution.blob)))
      violation("it contributed twice to one exchange");
    if (!round->complete()) return;
    ledger.forgetRound(contribution.index);
    if (round->split) makeChildren(world, *group, contribution.index, round->blobs);
    for (const auto& part : frames::Gathered::parts(group->id, contribution.index, round->blobs))
      toAll(world, *group, Type::gathered, part);
    if (round->split) condemnChildrenOfTheDead(world);
  }

  void makeChildren(World& world, const Group& parent, std::uint64_t index, const Blobs& blobs) {
    std::vector<std::pair<int, int>> color_key;
    for (const auto& blob : blobs) color_key.push_back(decodeSplit(blob));
    for (const auto& [color, ranks] : splitGroups(color_key)) {
      std::vector<int> members;
      for (const int rank : ranks)
        members.push_back(parent.members[static_cast<std::size_t>(rank)]);
      const std::uint64_t id = childId(parent.id, index, color);
      world.groups[id] = std::make_shared<Group>(id, std::move(members));
    }
  }

  /// A member may have died or fallen silent after its contribution to a split.
  void condemnChildrenOfTheDead(World& world) {
    for (const auto& [rank, member] : world.members) {
      if (member->gone) condemn(world, rank, deathOf(), true);
      else if (member->silent) condemn(world, rank, silenceOf(*member), false);
    }
  }

  void fail(World& world, Member& member, const frames::Fail& report) {
    const auto group = groupOf(world, member, report.communicator);
    if (!group || group->ledger.failure()) return;
    if (report.round) {
      failGroup(world, *group, group->ledger.completeRound(report.failure, *report.round));
    } else if (report.failure.code == ErrorCode::timeout && report.stall) {
      askAll(world, *group, report, group->rank_of[member.rank]);
    } else {
      failGroup(world, *group, report.failure);
    }
  }

  void askAll(World& world, Group& group, const frames::Fail& report, int reporter) {
    if (group.timeout) return; // the first counts
    group.timeout = Group::Timeout{report.failure, reporter, report.stall, ++asks_, {}, 0};
    for (const int rank : group.members) {
      const auto member = world.members.find(rank);
      if (member == world.members.end() || !member->second->reachable()) continue;
      if (group.ledger.hasLeft(group.rank_of[rank])) continue;
      group.timeout->awaited.insert(rank);
      member->second->link->send(Type::ask, frames::Ask{asks_});
    }
    group.timeout->timer =
        loop_->after(kAskLimit, [weak = weak_from_this(), size = world.size, id = group.id] {
          const auto self = weak.lock();
          if (!self || self->stopped_) return;
          World& in = self->worlds_.at(size);
          if (const auto found = in.groups.find(id); found != in.groups.end())
            self->concludeTimeout(in, *std::shared_ptr<Group>(found->second));
        });
  }

  void concludeTimeout(World& world, Group& group) {
    if (!group.timeout) return;
    const Group::Timeout timeout = *group.timeout;
    failGroup(world, group,
              group.ledger.completeTimeout(timeout.failure, timeout.reporter, timeout.stall));
  }

  void progress(World& world, Member& member, const frames::ProgressReport& report) {
    for (const auto& [id, board] : report.boards)
      if (const auto group = groupOf(world, member, id))
        group->ledger.setProgress(group->rank_of[member.rank], board);
    if (report.answer_to == 0) return;
    const auto groups = world.groups; // concluding may change it
    for (const auto& [id, group] : groups) {
      if (!group->timeout || group->timeout->ask != report.answer_to) continue;
      group->timeout->awaited.erase(member.rank);
      if (group->timeout->awaited.empty()) concludeTimeout(world, *group);
    }
  }

  void stalled(World& world, Member& member, const frames::Stalled& report) {
    const auto group = groupOf(world, member, report.communicator);
    if (!group || group->ledger.failure()) return;
    if (const auto verdict = group->ledger.stalled(group->rank_of[member.rank], report.stall))
      failGroup(world, *group, *verdict);
  }

  void leave(World& world, Member& member, const frames::Leave& report) {
    const auto group = groupOf(world, member, report.communicator);
    if (!group) return;
    const int rank = group->rank_of[member.rank];
    group->ledger.setProgress(rank, report.progress);
    leaveGroup(world, *group, rank);
  }

  void leaveGroup(World& world, Group& group, int rank) {
    if (const auto verdict = group.ledger.leave(rank)) failGroup(world, group, *verdict);
    if (!group.ledger.allLeft() || &group == world.root.get()) return;
    if (group.timeout) loop_->cancel(group.timeout->timer);
    world.groups.erase(group.id);
  }

  void bye(World& world, Member& member) {
    member.gone = true;
    const auto groups = world.groups;
    for (const auto& [id, group] : groups) {
      const auto rank = group->rank_of.find(member.rank);
      if (rank != group->rank_of.end() && !group->ledger.hasLeft(rank->second))
        leaveGroup(world, *group, rank->second);
    }
    member.link->close();
    endIfAllGone(world);
  }

  // What befalls members ----------------------------------------------------------------------

  struct Verdict {
    ErrorCode code;
    std::string text; ///< after "rank N "
  };
  static Verdict deathOf() {
    return {ErrorCode::peer_dead, "died: its process ended or its connection broke"};
  }
  static Verdict silenceOf(const Member& member) {
    return {ErrorCode::unresponsive, "does not respond: no heartbeat for " +
                                         std::to_string(silenceLimit(member.heartbeat).count()) +
                                         " ms"};
  }

  void lost(int size, int rank, const std::string& why) {
    const auto found = worlds_.find(size);
    if (found == worlds_.end() || stopped_) return;
    World& world = found->second;
    Member& member = *world.members.at(rank);
    if (member.gone) return;
    member.gone = true;
    member.link->close();
    base::log(LogLevel::info, "rank ", rank, " of ", size, " is lost: ", why);
    if (!world.complete) {
      std::vector<int> absent;
      for (int r = 0; r < size; ++r)
        if (!world.members.contains(r)) absent.push_back(r);
      std::string text = "rank " + std::to_string(rank) + " died while the ranks were meeting";
      if (!absent.empty()) text += "; " + rankList(absent) + " had not come yet";
      failGroup(world, *world.root, {ErrorCode::init_failed, text, rank});
    }
    condemn(world, rank, deathOf(), true);
    endIfAllGone(world);
  }

  /// Fails every communicator that the rank is still in.
  void condemn(World& world, int rank, const Verdict& verdict, bool leaves) {
    const auto groups = world.groups;
    for (const auto& [id, group] : groups) {
      const auto found = group->rank_of.find(rank);
      if (found == group->rank_of.end() || group->ledger.hasLeft(found->second)) continue;
      failGroup(world, *group,
                {verdict.code, "rank " + std::to_string(found->second) + " " + verdict.text,
                 found->second});
      if (leaves) leaveGroup(world, *group, found->second);
    }
  }

  void failGroup(World& world, Group& group, const Failure& failure) {
    if (!group.ledger.fail(failure)) return;
    if (group.timeout) {
      loop_->cancel(group.timeout->timer);
      group.timeout.reset();
    }
    base::log(LogLevel::info, "a communicator of ", group.members.size(),
              " ranks failed: ", group.ledger.failure()->text);
    toAll(world, group, Type::failed, frames::Failed{group.id, *group.ledger.failure()});
  }

  template <class Body>
  void toAll(World& world, const Group& group, Type type, const Body& body) {
    for (const int rank : group.members) {
      const auto member = world.members.find(rank);
      if (member != world.members.end() && member->second->reachable())
        member->second->link->send(type, body);
    }
  }

  void endIfAllGone(World& world) {
    if (!world.complete) return;
    for (const auto& [rank, member] : world.members)
      if (!member->gone) return;
    // Not from here: whoever owns the hub destroys it.
    if (auto over = std::exchange(over_, nullptr)) loop_->post(std::move(over));
  }

  // Heartbeats --------------------------------------------------------------------------------

  void scheduleTick() {
    gap_.expect(Clock::now() + tick_period_);
    tick_ = loop_->after(tick_period_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->tick();
    });
  }

  void tick() {
    if (stopped_) return;
    const auto now = Clock::now();
    const auto late = gap_.late(now);
    for (auto& [size, world] : worlds_)
      for (auto& [rank, member] : world.members) {
        if (!member->reachable()) continue;
        member->link->send(Type::beat);
        member->silence.forgive(late, now);
        const bool silent = member->silence.longerThan(silenceLimit(member->heartbeat), now);
        if (silent && !member->silent) condemn(world, rank, silenceOf(*member), false);
        member->silent = silent;
      }
    scheduleTick();
  }

  Settings settings_;
  std::function<void()> over_;
  const std::shared_ptr<net::EventLoop> loop_;
  frames::Welcome welcome_;
  std::unique_ptr<net::Acceptor> acceptor_;
  std::map<int, World> worlds_; ///< by size
  std::atomic<std::uint64_t> rejected_{0};
  std::uint64_t asks_ = 0;
  net::EventLoop::Id tick_ = 0;
  std::chrono::milliseconds tick_period_{300};
  Gap gap_;
  bool stopped_ = false;
};

Hub::Hub(const Settings& settings, std::function<void()> over)
    : impl_(std::make_shared<Impl>(settings, std::move(over))) {
  impl_->loop()->call([this] { impl_->start(); });
  address_ = impl_->address();
}

Hub::~Hub() {
  impl_->loop()->call([this] { impl_->stop(); });
}

void Hub::ended(int rank) { impl_->ended(rank); }

std::uint64_t Hub::rejected() const { return impl_->rejected(); }

} // namespace rondo::bootstrap
