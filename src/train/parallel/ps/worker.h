// A worker: passes forward and back, pushes gradients, pulls values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rondo/gradients.h"
#include "train/aligned.h"
#include "train/loop/replica.h"
#include "train/loop/stopwatch.h"
#include "train/parallel/ps/changes.h"
#include "train/parallel/ps/keys.h"
#include "train/parallel/ps/messages.h"
#include "train/parallel/samples.h"
#include "train/parallel/strategy.h"

namespace rondo::training::servers {

/// One thread. What is passed must live as long.
class Worker {
 public:
  /// The `number`th of the links' workers. `codec` makes messages of the gradients, if there is
  /// one; a sparse one leaves in `kept`, an array in the layout of the keys, what it does not send.
  Worker(const Setup& setup, Replica& replica, Links& links, const Keys& keys, int number,
         GradientCodec* codec, std::span<float> kept);
  /// Aborts the links where messages are on their way.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// This worker's part of the step behind `at`: each piece of the gradients leaves as soon as the
  /// backward pass has written it.
  void push(const Position& at, Request::Kind kind, StepClock& clock);
  /// Returns when the replica has the servers' new values. `oldest` is the least of all servers'.
  Notice pull();
  /// Instead of another push.
  void end();

  /// The first layer that gave what is not finite; "": none.
  const std::string& layer() const { return layer_; }

 private:
  /// A piece of the parameters as it comes and goes.
  struct Traffic {
    const Piece* piece;
    std::size_t missing = 0;      ///< weights whose gradients do not stand yet
    AlignedBytes message;         ///< of a codec
    Told told;                    ///< what the answer tells, if it does not tell all
    AlignedVector<float> changes; ///< of it
    Work announced;
  };
  struct Server {
    std::vector<Traffic> pieces; ///< in the order in which they leave
    std::size_t left = 0;        ///< that have left
    std::vector<Work> on_their_way;
    Notice notice;
  };

  void begin(Request::Kind kind);
  void aim(float* gradients);
  void gradientStands(std::size_t weight);
  void sendReady(std::size_t server);
  void send(std::size_t server, Traffic& piece);
  bool sparse() const { return codec_ && codec_->sparse(); }
  void askForValues();
  void pullChanges();
  void settle();

  const TrainOptions& options_;
  Replica& replica_;
  Links& links_;
  const std::size_t number_;
  GradientCodec* const codec_;
  const std::span<float> kept_;
  Samples samples_;
  AlignedVector<float> gradients_; ///< in the layout of keys
  AlignedVector<float> part_;      ///< of a micro-batch behind the first
  std::vector<Server> servers_;
  Request request_;
  std::string layer_;
  int micro_ = 0; ///< the micro-batch at work
};

} // namespace rondo::training::servers
