// One rank's control connection to its job's hub, shared by all sessions of the rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/condition.h"
#include "base/fork.h"
#include "bootstrap/heartbeat.h"
#include "bootstrap/ledger.h"
#include "bootstrap/link.h"
#include "bootstrap/session.h"
#include "net/event_loop.h"

namespace rondo::bootstrap {

struct RemoteCommunicator;
class Standby;

/// Any thread may call the public functions.
class Membership : public std::enable_shared_from_this<Membership> {
 public:
  struct Settings {
    net::SocketAddress hub;
    net::Secret secret;
    std::uint64_t job = 0;
    int rank = 0, size = 1;
    int newcomers = -1; ///< ranks from this one on join by Session::join(); -1: none
    base::Clock::time_point deadline{};
    std::chrono::milliseconds heartbeat{1000};
    bool patient = false;         ///< as in Options
    bool tls = false;             ///< as in Options
    bool hub_listens = false;     ///< a refused connection means that the hub has ended
    bool again = false;           ///< not rank 0, and an earlier start of the job has failed here
    bool launched = false;        ///< a launcher collects the output of all ranks
    std::string hub_process;      ///< name of the process if no rank hosts the hub: "the launcher"
    std::string socket_interface; ///< for bindAddress(), as in Options
    std::string socket_family;
  };

  /// Connects. Throws Error(init_failed). When the last of these pointers is destroyed, the rank
  /// says bye and waits until a hub has confirmed it: at most 0.4 s, or 2.4 s if the hub is moving.
  static std::shared_ptr<Membership> join(const Settings& settings);

  /// Collective over the job: makes one more communicator of all ranks. Throws Error(init_failed)
  /// with the missing ranks; the job has then failed on all ranks.
  std::unique_ptr<Session> open(std::chrono::milliseconds limit);
  /// Makes open() throw `why` on all ranks, including those that join later.
  void decline(const Failure& why) { fail(*world_, why, {}); }
  /// Whether the start has failed before all ranks had come. Then open() will always throw.
  bool failedToMeet() const;
  /// Whether a hub has refused this rank before all ranks had come.
  bool refusedToMeet() const;

  const Settings& settings() const { return settings_; }

 private:
  friend class RemoteSession;
  friend struct RemoteCommunicator;

  enum class Purpose {
    data,
    split,
    opened, ///< the last exchange when a communicator of shrink() is opened; without data
  };
  /// An exchange that this rank has contributed to.
  struct Exchange {
    Purpose purpose = Purpose::data;
    std::vector<std::byte> blob; ///< contributed by this rank
    Blobs blobs;
    std::size_t have = 0;
    bool done = false, abandoned = false;
    bool sent = false;                         ///< to the present hub; loop thread only
    std::shared_ptr<RemoteCommunicator> child; ///< only for a split
  };

  struct Users;

  explicit Membership(const Settings& settings);
  /// Post it to the loop thread.
  void sendExchange(std::uint64_t id, std::uint64_t index);
  void connect(net::Socket socket, const net::Key& key);
  void openLink(net::Socket socket, const net::Key& key);

  // For sessions.
  std::shared_ptr<Exchange> exchange(RemoteCommunicator& communicator, Purpose purpose,
                                     std::vector<std::byte> blob, std::chrono::milliseconds limit,
                                     const Failure& late);
  std::unique_ptr<Session> split(RemoteCommunicator& communicator, int color, int key,
                                 std::chrono::milliseconds limit, const Failure& late);
  void finishOpening(RemoteCommunicator& communicator, std::chrono::milliseconds limit);
  std::shared_ptr<RemoteCommunicator> shrink(RemoteCommunicator& communicator,
                                             const std::vector<bool>& stay);
  std::shared_ptr<RemoteCommunicator> agree(RemoteCommunicator& communicator,
                                            std::chrono::milliseconds limit);
  Failure fail(RemoteCommunicator& communicator, const Failure& failure,
               const std::optional<Stall>& stall);
  Failure failureOf(const RemoteCommunicator& communicator) const;
  void stalled(RemoteCommunicator& communicator, const Stall& stall);
  void told(RemoteCommunicator& communicator);
  void leave(RemoteCommunicator& communicator);

  // On the loop thread.
  void received(frames::Type type, base::Reader& in);
  void welcomed(const frames::Welcome& welcome);
  void gathered(frames::Gathered part);
  void failed(const frames::Failed& report);
  void left(const frames::Left& answer);
  void hubLost(ErrorCode code, const std::string& what);
  void refused(const frames::Refused& why);
  void present(const frames::Present& news);
  void standbys(const frames::Standbys& part);
  void agreed(const frames::Agreed& answer);
  void hubUnheard(std::chrono::milliseconds limit);
  void succeed(const frames::Succeed& offer);
  /// Whether the rank has left all communicators.
  bool leaving() const;
  void moved(const frames::Moved& to);
  void awaitMove();
  void moveFailed(const Error& why);
  /// Closes the hub that this process opened when the hub was offered to it, unless the ranks go to
  /// it. No other rank knows its address.
  void dropOffered();
  net::Dial::Settings dialTo(const net::SocketAddress& address,
                             base::Clock::time_point deadline) const;
  void dialHub(const net::SocketAddress& address, bool patient, base::Clock::time_point deadline);
  void tellAll();
  /// Says bye and waits, as join() says. Any thread; does not wait on the loop thread.
  void depart();
  /// Sends bye, if there is a hub that does not move.
  void sayBye();
  /// The hub has received the bye, or there is none, or the limit has passed. The caller holds this
  /// object.
  void departed();
  // After the hub's death.
  struct Search;
  /// `silent`: the hub does not respond. Otherwise its connection has ended.
  void startSearch(bool silent);
  void seek();
  void tryNext();
  void awaitCandidate();
  void askLater(std::chrono::milliseconds wait);
  /// Goes on to the next candidate if this one no longer answers: it may have been stopped after it
  /// had accepted the connection.
  void askCandidate();
  void hostHub();
  /// For a hub that this process opens at `host`: the ranks that may follow another hub. These are
  /// the ones that the last hub named. They are all other ranks if `unsure`, or if another hub has
  /// said that it goes on without this rank.
  std::set<int> mayHaveMoved(int host, bool unsure) const;
  void searchFailed(const Failure& why);
  void noticeStop();
  void beat(const frames::Beat& news);
  void scheduleTick();
  void tick();
  /// Sends new progress; if a heartbeat is due, sends it even without news.
  void report();
  void answer(const frames::Ask& ask);
  void postReport();
  template <class Body>
  void post(frames::Type type, Body body);

  static frames::ProgressReport::Board boardOf(const RemoteCommunicator& communicator,
                                               std::uint64_t reported);

  // With mutex_ held.
  /// Fails the communicators. Those being opened wait for the next hub, except the young ones that
  /// contain the hub's host: they fail too. `verdict` gets the host's rank in each, or -1. `lost`:
  /// the connection to the hub has ended, so the failure is kept to be told to the next hub.
  void failAll(bool lost, const std::function<Failure(const RemoteCommunicator&, int)>& verdict);
  void setFailure(RemoteCommunicator& communicator, Failure failure);
  /// The failure in the ranks of a communicator; its culprit is a rank of the job.
  static Failure inRanksOf(const RemoteCommunicator& communicator, Failure failure);
  std::shared_ptr<RemoteCommunicator> makeChild(const RemoteCommunicator& parent,
                                                std::uint64_t index, const Blobs& blobs);
  std::string hubText() const;

  const Settings settings_;
  std::weak_ptr<Membership>
      users_; ///< what join() returned; callbacks use weak_from_this(), which is no user
  const base::Maker maker_;
  const std::shared_ptr<net::EventLoop> loop_;

  // Used by the loop thread only.
  std::shared_ptr<Link> link_;
  net::EventLoop::Id tick_ = 0;
  Gap gap_;
  Silence silence_;
  /// When this process last woke after others may have excluded this rank; empty once the hub is
  /// known to count it.
  std::optional<base::Clock::time_point> awake_;
  /// When this process last woke after it may have missed a move of the hub.
  std::optional<base::Clock::time_point> late_;
  bool hosts_hub_ = false;  ///< this process runs the hub
  bool departing_ = false;  ///< its last user has gone
  std::uint64_t heard_ = 0; ///< number of the hub's last beat
  base::Clock::time_point next_beat_{};
  std::unique_ptr<net::Dial> dial_; ///< connects to the new hub
  net::EventLoop::Id move_timer_ = 0;
  net::EventLoop::Id depart_timer_ = 0; ///< holds this object until its bye has been answered
  std::shared_ptr<Standby> standby_;
  std::map<int, net::SocketAddress>
      standbys_; ///< where the candidates listen; on a candidate, and after an offer: all ranks
  std::set<int> candidates_;       ///< ranks that may take the hub over
  std::vector<bool> present_;      ///< by rank of the job: whether it may be alive
  std::set<int> maybe_moved_;      ///< see World
  std::uint64_t generation_ = 0;   ///< of the hub
  std::shared_ptr<Search> search_; ///< looks for the next hub

  mutable std::mutex mutex_;
  base::Condition changed_;
  std::map<std::uint64_t, std::shared_ptr<RemoteCommunicator>> communicators_;
  std::shared_ptr<RemoteCommunicator> world_;
  net::SocketAddress bind_;
  net::Secret secret_;
  std::uint64_t job_ = 0; ///< as the welcome named it
  int host_ = -1;         ///< rank whose process runs the hub
  bool welcome_ = false;
  bool met_ = false;      ///< was welcomed, and the start had not failed by then
  bool refused_ = false;  ///< before the welcome
  bool moving_ = false;   ///< the hub moves: wait before sending
  bool departed_ = false; ///< nothing more is sent
  /// Of a hub that this rank opened, since it was offered. Set until it is known who hosts the hub.
  std::optional<net::SocketAddress> offered_;
  bool supervised_ = true;         ///< false after the hub's farewell, or if none could be found
  std::optional<Failure> refusal_; ///< why there is no hub; its culprit is a rank of the job
};

} // namespace rondo::bootstrap
