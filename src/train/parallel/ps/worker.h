// A worker: passes forward and back, pushes gradients, pulls values.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "rondo/gradients.h"
#include "train/aligned.h"
#include "train/loop/replica.h"
#include "train/loop/stopwatch.h"
#include "train/parallel/ps/exchange.h"
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
  /// This worker's part of the step behind `at`: each piece of the gradients leaves as soon as the
  /// backward pass has written it.
  void push(const Position& at, Request::Kind kind, StepClock& clock);
  /// Returns when the replica has the servers' new values. `oldest` is the least of all servers'.
  Notice pull();
  /// Instead of another push.
  void end() { exchange_.end(); }

  /// The first layer that gave what is not finite; "": none.
  const std::string& layer() const { return layer_; }

 private:
  void aim(float* gradients);
  void gradientStands(std::size_t weight);

  const TrainOptions& options_;
  Replica& replica_;
  const std::size_t number_;
  Samples samples_;
  AlignedVector<float> gradients_; ///< in the layout of keys
  AlignedVector<float> part_;      ///< of a micro-batch behind the first
  Exchange exchange_;
  std::string layer_;
  int micro_ = 0; ///< the micro-batch at work
};

} // namespace rondo::training::servers
