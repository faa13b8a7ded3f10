// A server: holds a range of keys, answers what workers send.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "rondo/gradients.h"
#include "train/aligned.h"
#include "train/parallel/ps/clocks.h"
#include "train/parallel/ps/messages.h"
#include "train/parallel/ps/piece_server.h"
#include "train/parallel/ps/tally.h"

namespace rondo::training::servers {

/// What a server is made for.
struct ServerPlan {
  const Staleness& staleness;
  std::function<double(std::int64_t)> rate; ///< of a step of the run, counted from 0
  std::int64_t batch = 1;
  GradientCodec* codec = nullptr; ///< of the pushes; null: they are what they are
};

/// Keys that answers told, and those that they would have told if they told all.
struct Pulled {
  std::uint64_t told = 0, all = 0;
};

/// One thread at a time. Between meetings it has a receive open to every worker that has not ended,
/// and answers whom it may: nobody waits for a worker that nothing binds it to.
class Server {
 public:
  /// What is passed must live as long.
  Server(Links& links, std::deque<PieceServer>& pieces, const ServerPlan& plan);
  /// Aborts the links where messages are on their way.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// At a meeting: the run has done `total` steps, and will meet after `steps` more.
  void begin(std::int64_t total, std::int64_t steps, double losses);
  /// Serves until all workers have ended; or until so many steps of the run are done since the
  /// meeting.
  void serve(std::int64_t steps);
  bool ended() const { return open_ == 0; }

  const Tally& tally() const { return tally_; }
  const Pulled& pulled() const { return pulled_; }
  bool stopped() const { return stopped_; }

 private:
  /// What goes on with one worker.
  struct Client {
    int rank = 0;
    Request request;
    Notice notice;
    std::vector<AlignedVector<float>> buffers; ///< by piece, modulo window(): its push, then its
                                               ///< answer
    std::vector<AlignedBytes> messages;        ///< likewise: its push, with a codec
    std::vector<Told> told;                    ///< by piece, of its answer
    std::vector<Changes::Move> has;            ///< by piece: behind which move its values stand
    Work requested;
    std::vector<Work> received, announced, sent; ///< by piece
    Work noticed;
    bool open = false;         ///< has not ended
    bool pushing = false;      ///< its pieces come
    std::size_t receiving = 0; ///< pieces of this push that have a receive
    std::size_t arrived = 0;   ///< and have come
    std::size_t answered = 0;  ///< and answers to it
  };

  /// Whether this piece's pushes come as messages of the codec: gradients do.
  bool coded(const Piece& piece) const { return plan_.codec && !piece.state; }
  /// Where pushes leave keys out, answers leave out those that nobody moved.
  bool sparse() const { return plan_.codec && plan_.codec->sparse(); }
  /// Pieces of a push that have a buffer at a time. Bulk-synchronous pushes of a piece are done
  /// with when all have come, so that a few buffers serve all pieces, and stay in the caches. (25
  /// MiB, 4 ranks on 2 cores, tcp, beside other work, a buffer for each piece and two: one server
  /// 63 and 53 ms, four 63 and 57.) What workers in their own time push has to come in whatever the
  /// slowest does.
  std::size_t window() const {
    return plan_.staleness.bulk() && !sparse() ? std::min(kWindow, pieces_.size()) : pieces_.size();
  }
  bool look(std::size_t worker);
  void listen(Client& client);
  void take(Client& client);
  void receive(Client& client);
  bool takePieces(std::size_t worker);
  bool answer(std::size_t worker);
  void sendValues(Client& client, std::size_t piece);
  void sendChanges(Client& client, std::size_t piece);
  void complete(std::size_t worker);
  void endPush(std::size_t worker);
  void rest();

  /// Between looks at all workers: what is on its way often comes soon, and a server that looks all
  /// the time takes a core from the workers.
  static constexpr std::chrono::microseconds kShortestNap{50}, kLongestNap{1000};

  static constexpr std::size_t kWindow = 2;

  Links& links_;
  std::deque<PieceServer>& pieces_;
  const ServerPlan plan_;
  Grants grants_;
  Tally tally_;
  Pulled pulled_;
  std::vector<Client> clients_;
  std::int64_t total_ = 0; ///< steps of the run at the last meeting
  int open_ = 0;           ///< workers that have not ended
  bool stopped_ = false;   ///< a worker was asked to end
  std::size_t turn_ = 0;   ///< whose message the next rest waits for
  std::chrono::microseconds nap_ = kShortestNap;
};

} // namespace rondo::training::servers
