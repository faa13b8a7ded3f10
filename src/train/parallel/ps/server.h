// A parameter server: holds a range of keys and answers the messages of workers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
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

/// The settings of a server.
struct ServerPlan {
  const Staleness& staleness;
  std::function<double(std::int64_t)> rate; ///< learning rate of a step of the run, counted from 0
  std::int64_t batch = 1;
  GradientCodec* codec = nullptr; ///< decodes pushes; null if they are float32
};

/// Number of keys that answers contained, and number that they would have contained without leaving
/// any out.
struct Pulled {
  std::uint64_t told = 0, all = 0;
};

/// One thread at a time. Between synchronization points it always has a receive posted for every
/// worker that has not ended. It answers each worker as soon as the bound allows: no worker waits
/// for another without need.
class Server {
 public:
  /// The arguments must outlive this object.
  Server(Links& links, std::deque<PieceServer>& pieces, const ServerPlan& plan);
  /// Aborts the links if messages are in flight.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Called at a synchronization point: the run has done `total` steps, and the next
  /// synchronization point is `steps` steps later.
  void begin(std::int64_t total, std::int64_t steps, double losses);
  /// Serves until all workers have ended, or until the run has done `steps` steps since the
  /// synchronization point. An exception aborts the links and the communicator of the run, so
  /// that all ranks learn of it at once, unless another rank's death caused it.
  void serve(std::int64_t steps);
  bool ended() const { return open_ == 0; }

  const Tally& tally() const { return tally_; }
  const Pulled& pulled() const { return pulled_; }
  bool stopped() const { return stopped_; }

 private:
  /// The state of the communication with one worker.
  struct Client {
    int rank = 0;
    Request request;
    Notice notice;
    /// By piece modulo window(): its push, then its answer.
    std::vector<AlignedVector<float>> buffers;
    std::vector<AlignedBytes> messages; ///< by piece modulo window(): its encoded push
    std::vector<Told> told;             ///< by piece: the announcement of its answer
    std::vector<Changes::Move> has; ///< by piece: the last move that the worker's values contain
    Work requested;
    std::vector<Work> received, announced, sent; ///< by piece
    Work noticed;
    bool open = false;         ///< it has not ended
    bool pushing = false;      ///< its push is arriving
    std::size_t receiving = 0; ///< pieces of this push for which a receive was posted
    std::size_t arrived = 0;   ///< pieces of this push that have arrived
    std::size_t answered = 0;  ///< pieces of this push that have been answered
  };

  /// Whether the pushes of this piece are encoded: those of gradients are, those of state are not.
  bool coded(const Piece& piece) const { return plan_.codec && !piece.state; }
  /// If pushes leave keys out, answers leave out the keys that have not changed.
  bool sparse() const { return plan_.codec && plan_.codec->sparse(); }
  /// Number of pieces of a push that have buffers at the same time. In BSP the buffers of a piece
  /// are free again when the pushes of all workers have arrived, so that a few buffers serve all
  /// pieces and stay in the caches. (25 MiB, 4 ranks on 2 cores, tcp, with other load, a buffer for
  /// each piece against two buffers: one server 63 and 53 ms, four servers 63 and 57.) Without BSP
  /// a server must receive pushes without waiting for the slowest worker, so every piece has its
  /// own buffer.
  std::size_t window() const {
    return plan_.staleness.bulk() && !sparse() ? std::min(kWindow, pieces_.size()) : pieces_.size();
  }
  void lookAtAll();
  void tellWorkers(const std::exception& error);
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

  /// Wait between two looks at all workers. The next message often arrives soon, but a server that
  /// polls all the time takes a core from the workers.
  static constexpr std::chrono::microseconds kShortestNap{50}, kLongestNap{1000};

  static constexpr std::size_t kWindow = 2;

  Links& links_;
  std::deque<PieceServer>& pieces_;
  const ServerPlan plan_;
  Grants grants_;
  Tally tally_;
  Pulled pulled_;
  std::vector<Client> clients_;
  std::int64_t total_ = 0; ///< steps of the run at the last synchronization point
  int open_ = 0;           ///< number of workers that have not ended
  bool stopped_ = false;   ///< a worker was asked to stop
  std::size_t turn_ = 0;   ///< the worker whose message the next rest() waits for
  std::chrono::microseconds nap_ = kShortestNap;
};

} // namespace rondo::training::servers
