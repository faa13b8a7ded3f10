// The hub's rules, and its state, which only the loop thread changes.
//
// hub.cc handles members' requests: join, exchange, split, leave. hub_failures.cc handles failures
// of members. hub_succession.cc moves the hub when its process ends. hub_quorum.cc decides whether
// this hub has the majority, and makes the ranks agree on which of them live.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "bootstrap/hub.h"
#include "bootstrap/hub_state.h"
#include "bootstrap/standby.h"
#include "net/event_loop.h"
#include "net/shared_acceptor.h"
#include "rondo/error.h"
#include "rondo/options.h"

namespace rondo::bootstrap {

/// Throws the error that makes the caller close the control connection of the member whose frame is
/// being read. Other members are not affected.
[[noreturn]] inline void violation(const std::string& what) {
  throw Error(ErrorCode::transport, what);
}

class Hub::Impl : public std::enable_shared_from_this<Hub::Impl> {
 public:
  Impl(const Settings& settings, std::function<void()> over)
      : settings_(settings), over_(std::move(over)), loop_(net::EventLoop::get()) {
    welcome_.job = settings.succession ? settings.succession->job : base::randomNumber();
    welcome_.secret = settings.secret.present ? net::Secret{} : net::Secret::random();
  }
  void start();
  void serve(const std::shared_ptr<Standby>& standby);
  void stop();
  void ended(int rank);
  /// Notes that ranks without a connection may have moved to another hub.
  void mayBeReplaced();
  /// Not on the loop thread. Returns true when another hub has taken over; false when none is
  /// needed, or no rank has taken it in time.
  bool handOver(bool process_ends);

  const std::shared_ptr<net::EventLoop>& loop() const { return loop_; }
  const net::SocketAddress& address() const { return settings_.address; }
  std::uint64_t rejected() const { return rejected_.load() + acceptorRejected(); }
  int waiting() const;
  bool met() const;
  bool withdraw();

 private:
  using Type = frames::Type;

  std::uint64_t acceptorRejected() const;
  void closeListener();
  /// Closes it if every living rank is here.
  void closeIfAllCame(const World& world);
  void accept(net::Accepted peer);
  /// The refusal of a rank that a hub which took over no longer waits for.
  std::optional<frames::Refused> tooLate(const net::Hello& hello) const;
  /// Empty: the rank may join.
  std::string whyRefused(const net::Hello& hello);
  World& makeWorld(int size);
  /// If the rank's choice of TLS is not that of the ranks before it, fails the job and returns why
  /// the rank is refused. Otherwise empty.
  std::string otherTls(World& world, const net::Hello& hello);
  void join(World& world, Member& member, const frames::Join& join);
  void complete(World& world);

  // What members send.
  void received(int size, int rank, Type type, base::Reader& in);
  /// Null when the communicator has ended. Throws if the member is not in the communicator.
  std::shared_ptr<Group> groupOf(World& world, const Member& member, std::uint64_t id);
  void gather(World& world, Member& member, frames::Gather contribution);
  void makeChildren(World& world, const Group& parent, std::uint64_t index, const Blobs& blobs);
  void progress(World& world, Member& member, const frames::ProgressReport& report);
  void leave(World& world, Member& member, const frames::Leave& report);
  void leaveGroup(World& world, Group& group, int rank);
  /// Answers the ranks that are leaving: the comparison of their calls is complete.
  void answerLeaving(World& world, Group& group);
  void bye(World& world, Member& member);
  void endIfAllGone(World& world);

  // Decisions about failures.
  struct Cause {
    ErrorCode code;
    std::string text; ///< after "rank N "
  };
  static Cause deathOf();
  static Cause silenceOf(const Member& member);
  /// `rank`: of the communicator.
  static Failure failureOf(int rank, const Cause& cause);
  void fail(World& world, Member& member, const frames::Fail& report);
  void stalled(World& world, Member& member, const frames::Stalled& report);
  /// Asks all ranks for their calls. Then fails the group with the difference between their calls,
  /// or else with the suspicion. A later one counts only if the running inquiry has none.
  void inquire(World& world, Group& group, const std::optional<Suspicion>& suspicion,
               std::uint64_t target);
  void ask(World& world, Group& group);
  void inquiryOver(World& world, Group& group);
  void answered(World& world, const Member& member, const frames::ProgressReport& report);
  void conclude(World& world, Group& group);
  /// A rank reports that it lost another. Waits a moment for news of that rank's death. If the rank
  /// is said to be silent, asks it for an answer.
  void accuse(World& world, Group& group, int accuser, const Failure& failure);
  void decideAccusation(World& world, Group& group);
  void lost(int size, int rank, const std::string& why);
  /// Its frames are of this other version.
  void lostFor(int version, int size, int rank);
  /// Fails an incomplete rendezvous if a rank ended before it joined.
  void failForEnded(World& world);
  /// Fails every communicator that the rank is still in.
  void failRank(World& world, int rank, const Cause& cause, bool leaves);
  /// Fails the communicators of `deaf`, with the hub's host as culprit.
  void blameHost(World& world, const Member& deaf);
  /// Call it when a split is complete: a member may have died or fallen silent after contributing.
  void failSplitsOfDeadRanks(World& world);
  void failGroup(World& world, Group& group, const Failure& failure);
  void dropTimers(Group& group);
  void dropInquiry(Group& group);
  /// Runs the function after the delay if the group still exists.
  net::EventLoop::Id later(std::chrono::milliseconds delay, const World& world, const Group& group,
                           void (Impl::*run)(World&, Group&));

  // Succession.
  struct HandOver;
  /// Living ranks outside this process that are still in a communicator. A failed communicator
  /// counts, because its ranks may still shrink it.
  std::set<int> successors(const World& world) const;
  /// Offers the hub to the first rank after `after` that can host it, and whose process has no
  /// offer. If the rank does not answer soon, offers it to the next one too. The first answer
  /// counts.
  void offer(int after);
  void handOverEnds(bool moved);
  void sendOffer(World& world, Member& member);
  /// Whether the rank, or another one of its process, was offered the hub. The ranks of a process
  /// open one hub together, which can wait only for the ranks that one offer expects.
  bool hasOffer(const World& world, int rank) const;
  /// By rank: whether it is connected.
  static std::vector<bool> reachableRanks(const World& world);
  void succeeded(World& world, Member& member, const frames::Succeeded& answer);
  /// Calls choose() after one more turn of the loop, which reads up to 256 KiB of each link.
  void chooseLater(int size, int rank);
  /// Moves the hub to a rank that has answered, or offers it again if a rank has gone since.
  void choose(World& world, int rank);
  void takeOver(const Succession& from);
  /// Starts the time limit within which the ranks must connect, unless it runs already.
  void limitComing();
  /// That limit has passed: excludes the ranks that have not connected, unless the ranks of a hub
  /// that was handed over are patient.
  void comingEnds(World& world);
  /// How long the ranks may take to connect to this hub. Any thread.
  std::chrono::milliseconds comingLimit() const;
  void roster(World& world, Member& member, const frames::Roster& part);
  void leaveSilently(World& world, Group& group);
  std::shared_ptr<Group> makeGroup(std::uint64_t id, const std::vector<int>& ranks) const;
  /// For a new hub that has the majority. If one rank has the result of the last exchange, sends it
  /// to the ranks without it. If none has it, and a living rank does not know the communicator,
  /// fails the communicator. Then sends its failure, if there is one, to all its ranks.
  void endOpening(World& world, Group& group);
  /// The rank has sent its whole state, or will send none.
  void settled(World& world, int rank);
  void shrink(World& world, Member& member, const frames::Shrink& wish);

  // Newcomers: ranks that join a communicator which grows, and have no number yet.
  void knock(net::Accepted peer);
  void seat(const World& world, const frames::Seat& first);
  void giveSeats();
  void newcomerLost(std::uint64_t number, const std::string& why);
  /// Ends the connections of all newcomers; tells those without a rank why.
  void refuseNewcomers(const std::string& why);

  // The majority.
  enum class Standing { majority, minority, unknown };
  /// With the majority, first tells the living ranks without a connection that this hub goes on
  /// without them, and returns `unknown` until these attempts end.
  Standing standing(World& world);
  /// Ranks that have not ended and do not answer.
  std::vector<int> unseen(const World& world) const;
  static bool answers(const Member& member);
  Failure minorityFailure(const World& world) const;
  /// Converts the culprit from a rank of the job to one of the group.
  static Failure inGroup(Failure failure, const Group& group);
  /// Completes the exchange if all have contributed and this hub has the majority.
  void finishRound(World& world, Group& group, std::uint64_t index);
  /// Continues exchanges and agreements that waited until it was known which ranks live. Called
  /// when a rank is known to live or to have ended, and when all ranks have come to a new hub.
  void resume(World& world);
  void tellPresence(World& world);
  void dissolve(World& world);
  /// The rank has ended or has said bye. Counts it as gone, unless it may have moved.
  void rankEnded(World& world, int rank);
  /// Asks a rank's listener whether the rank lives.
  void probe(World& world, int rank);
  /// Asks the listeners of all ranks in World::away once more, because those ranks may have ended
  /// since. Call it when another rank is gone.
  void askAgain(World& world);
  void lookAtProbes();
  void lookLater(base::Clock::duration wait);
  void dropProbe(World& world, int rank);
  void probed(World& world, int rank, bool dead);
  void agree(World& world, Member& member, const frames::Agree& wish);
  void decide(World& world, Group& group);
  void decideAll(World& world);

  // Heartbeats.
  void scheduleTick();
  void tick();
  /// Calls mayBeReplaced() if this process was stopped for long until now. Call it before a rank is
  /// counted as gone.
  void noticeStop();
  static void mayHaveMoved(World& world, int rank);
  void judge(World& world, Member& member, base::Clock::duration late, base::Clock::time_point now);

  template <class Body>
  void toAll(World& world, const Group& group, Type type, const Body& body) {
    for (const int rank : group.members) {
      const auto member = world.members.find(rank);
      if (member != world.members.end() && member->second->reachable())
        member->second->link->send(type, body);
    }
  }

  Settings settings_;
  std::function<void()> over_;
  const std::shared_ptr<net::EventLoop> loop_;
  frames::Welcome welcome_;
  std::unique_ptr<net::SharedAcceptor> acceptor_; ///< null: closed, or ranks come by standby_
  std::shared_ptr<Standby> standby_;              ///< not null: ranks may come by it
  std::map<int, World> worlds_;                   ///< by size
  std::atomic<std::uint64_t> rejected_{0};
  std::set<std::string> refusals_;               ///< the reasons that were warned of
  std::map<std::uint64_t, Applicant> newcomers_; ///< in the order in which they came
  std::uint64_t knocks_ = 0;
  std::optional<frames::Seat> seats_; ///< the first rank for newcomers
  int next_seat_ = 0;
  std::uint64_t asks_ = 0, beats_ = 0;
  /// The first beat after this process was stopped for long, or was told that another hub goes on
  /// without it. A member that has received it has not moved to another hub.
  std::uint64_t awake_beat_ = 0;
  net::EventLoop::Id tick_ = 0;
  std::chrono::milliseconds tick_period_{300};
  std::chrono::milliseconds heartbeat_ = Options::kLongestHeartbeat; ///< the members' shortest
  Gap gap_;
  bool stopped_ = false;
  std::set<int> ended_;   ///< ranks for which ended() was called
  int last_offered_ = -1; ///< the rank that was offered the hub last
  struct Offer {
    std::vector<bool> expected;                ///< reachableRanks() at the time of the offer
    std::optional<net::SocketAddress> address; ///< of the rank's new hub, when it has answered
  };
  std::map<int, Offer> offered_; ///< by rank; without those that declined
  std::shared_ptr<HandOver> handing_over_;
  net::EventLoop::Id settle_timer_ = 0, probe_timer_ = 0, offer_timer_ = 0, ask_timer_ = 0;
  /// Probes whose answers no longer matter. They run to their end, because a listener would count
  /// a handshake that breaks off as a stranger's.
  std::vector<std::unique_ptr<net::Dial>> old_probes_;
  /// Ranks that failed before they had described their communicators to this hub, and why.
  std::map<int, Cause> failed_coming_;
  bool claims_ = false; ///< it took over from a hub that died, and does not yet have the majority
  std::uint64_t generation_ = 0, agreements_ = 0;
};

} // namespace rondo::bootstrap
