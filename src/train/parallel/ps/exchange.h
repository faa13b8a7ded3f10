// Sends a worker's gradients to the servers, and receives the new values.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rondo/gradients.h"
#include "train/aligned.h"
#include "train/parallel/ps/changes.h"
#include "train/parallel/ps/keys.h"
#include "train/parallel/ps/messages.h"

namespace rondo::training::servers {

/// The worker's arrays, in the layout of the keys.
struct Ends {
  std::span<const float> gradients;
  std::span<float> values;
  /// The part of the gradients that a sparse codec has not sent yet; empty for other codecs.
  std::span<float> kept;
};

/// One thread. The arguments must outlive this object.
class Exchange {
 public:
  /// `codec` encodes the gradients; if it is null they are sent as float32.
  Exchange(Links& links, const Keys& keys, const Ends& ends, GradientCodec* codec);
  /// Aborts the links if messages are in flight.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Returns when no message is in flight: then gradients may be overwritten.
  void settle();
  /// Sends the request to all servers, and the running statistics, which are complete by now.
  void begin(const Request& request);
  /// Called when the gradient of a weight is complete. Sends each piece whose gradients are all
  /// complete.
  void gradientStands(std::size_t weight);
  /// Returns when the replica holds the servers' new values. `oldest` is the minimum over all
  /// servers.
  Notice pull();
  /// Informs the servers that this worker pushes nothing more before the synchronization point.
  void end();

 private:
  /// The messages of one piece of the parameters.
  struct Traffic {
    const Piece* piece;
    std::size_t missing = 0;      ///< weights whose gradients are not complete yet
    AlignedBytes message;         ///< encoded by the codec
    Told told;                    ///< announces an answer that contains only the changed keys
    AlignedVector<float> changes; ///< that answer
    Work announced;
  };
  struct Server {
    std::vector<Traffic> pieces; ///< in the order in which they are sent
    std::size_t left = 0;        ///< number of pieces that have been sent
    std::vector<Work> on_their_way;
    Notice notice;
  };

  void sendReady(std::size_t server);
  void send(std::size_t server, Traffic& piece);
  bool sparse() const { return codec_ && codec_->sparse(); }
  void pullAll();
  void pullChanges();
  void takeChanges();

  Links& links_;
  const Ends ends_;
  GradientCodec* const codec_;
  std::vector<Server> servers_;
  Request request_;
};

} // namespace rondo::training::servers
