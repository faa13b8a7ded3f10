// A worker of a parameter server: runs the passes, pushes gradients and pulls values.
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

/// One thread. The arguments must outlive this object.
class Worker {
 public:
  /// `codec`, if not null, encodes the gradients. A sparse codec stores what it does not send in
  /// `kept`, an array in the layout of the keys.
  Worker(const Setup& setup, Replica& replica, Links& links, const Keys& keys, GradientCodec* codec,
         std::span<float> kept);
  /// Computes part `share` (one for each worker) of the batch of the step after `at`, and sends
  /// each piece of the gradients as soon as the backward pass has written it.
  void push(const Position& at, std::int64_t share, Request::Kind kind, StepClock& clock);
  /// Returns when the replica holds the servers' new values. `oldest` is the minimum over all
  /// servers.
  Notice pull();
  /// Informs the servers that this worker pushes nothing more before the synchronization point.
  void end() { exchange_.end(); }

  /// The first layer with a value that is not finite; "" if there is none.
  const std::string& layer() const { return layer_; }

 private:
  void aim(float* gradients);
  void gradientStands(std::size_t weight);

  const TrainOptions& options_;
  Replica& replica_;
  Samples samples_;
  AlignedVector<float> gradients_; ///< in the layout of the keys
  AlignedVector<float> part_;      ///< gradients of a micro-batch after the first
  Exchange exchange_;
  std::string layer_;
  int micro_ = 0; ///< the current micro-batch
};

} // namespace rondo::training::servers
