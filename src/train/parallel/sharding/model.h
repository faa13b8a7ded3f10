// Trains a model whose optimizer state, gradients or parameters are sharded over ranks: decides
// what is sent when, and where it is in memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/models/network.h"
#include "train/optim/optimizer.h"
#include "train/parallel/sharding/layout.h"
#include "train/parallel/sharding/memory.h"
#include "train/parallel/sharding/narrow.h"
#include "train/parallel/sharding/passages.h"

namespace rondo::training {

struct ShardSettings {
  ShardLevel level;
  std::vector<std::size_t> unit_bytes; ///< caps for shardLayout()
  std::string optimizer;
  OptimizerSettings optimizer_settings; ///< the model sets sum_over_shards
  int micro_batches = 1;                ///< micro-batches of a step on this rank
  /// Gradients are reduced while the backward pass goes on; if false, it waits for each reduction.
  bool overlap = true;
  /// With ShardLevel::parameters: parameters and gradients are sent as bfloat16 within the group.
  /// This rank's pieces, the sums of their gradients and the optimizer stay float32.
  bool narrow = false;
};

/// An array with one element for each element of a weight, of which this rank holds one piece.
struct ShardedArray {
  std::string name;               ///< "weight.3.weight"
  std::vector<std::size_t> shape; ///< of the whole array
  std::span<float> own;
  std::vector<std::size_t> counts, offsets; ///< piece of each rank, in elements
};

/// One thread. A step consists, for each micro-batch, of beginForward(), the network's forward(),
/// beginBackward(), the network's backward() with calls of gradientReady(), and endBackward(); then
/// update(). Every rank makes the same calls in the same order.
class ShardedModel {
 public:
  /// Collective. The model is sharded over the ranks of `shards`. The ranks of `replicas`, if not
  /// null, hold the same pieces and add up their gradients. Allocates and initialises the weights
  /// of the network. Its state must have memory, and is initialised. References and pointers must
  /// outlive this object.
  ShardedModel(Communicator& shards, Communicator* replicas, Network& network, std::uint64_t seed,
               ShardSettings settings);
  /// If an exception ended a step, aborts the communicators and returns when no operation of the
  /// step is in flight.
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  /// Adds the durations of the step's collectives to this timeline, unless it is null.
  void observe(Timeline* timeline) { passages_.observe(timeline); }
  void beginForward();
  void beginBackward();
  /// Reports that the gradient of the weight is complete. The last weight of a unit starts the
  /// reduction of the unit.
  void gradientReady(std::size_t weight);
  /// Returns when the gradients of all ranks have been added up.
  void endBackward();
  /// Takes the optimizer's step on this rank's pieces. A limit of 0 disables clipping.
  void update(double learning_rate, float scale, double clip_limit);

  /// Must be called before the network evaluates a batch.
  void beginEvaluation();
  /// Takes part in the collectives of an evaluation on the other ranks, without evaluating a batch.
  void passAlong();
  /// Collective. Calls `visit` for each unit in order, while all parameters of the unit are
  /// present.
  void visitUnits(const std::function<void(const ShardUnit&, const float* values)>& visit);

  Optimizer& optimizer() { return *optimizer_; }
  /// This rank's piece of each weight, and of its gradient.
  std::vector<Weight*> pieces();
  /// The weights, then the optimizer's arrays, with their names in checkpoints.
  std::vector<ShardedArray> arrays();
  /// Collective. Must be called after pieces of weights were written.
  void publish();

  const ShardLayout& layout() const { return layout_; }
  ShardLevel level() const { return settings_.level; }
  bool narrow() const { return settings_.narrow; }
  /// Elements that this group has gathered and reduced so far.
  std::uint64_t gatheredElements() const { return gathered_elements_; }
  std::uint64_t reducedElements() const { return reduced_elements_; }
  /// All memory that this object has allocated; it frees nothing before its destruction.
  const ModelMemory& held() const { return held_; }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Buffer take(std::size_t count, std::size_t ModelMemory::*counter);
  void placeWeights();
  void cutPieces();
  void initialise(std::uint64_t seed);

  void enter(std::size_t layer);
  void enterUnit(std::size_t unit);
  void gather(std::size_t unit);
  void startGather(std::size_t unit);
  void reduce(std::size_t unit);
  void startReduce(std::size_t unit);
  void arrived(std::size_t unit);
  void narrowOwn();
  std::uint64_t wireBytes(std::size_t unit) const;
  void replicate(bool all);
  void addMicroBatch();
  void settle(Work& work) noexcept;

  float* slot(std::size_t number) const;
  float* parameters(std::size_t unit) const;
  float* gradients(std::size_t unit) const;
  float* ownParameters(std::size_t unit) const;
  float* incoming(std::size_t unit) const;
  float* ownGradients(std::size_t unit) const;
  bool sharesParameters() const { return settings_.level == ShardLevel::parameters; }

  Communicator& shards_;
  Communicator* const replicas_;
  Network& network_;
  ShardSettings settings_;
  const std::vector<Weight*> weights_;
  const ShardLayout layout_;
  const std::size_t rank_, units_;
  ModelMemory held_;
  std::vector<std::size_t> own_begin_, slot_begin_; ///< first element of each unit and of each slot
  Buffer values_, gradients_, sums_, slots_;
  std::vector<Weight> pieces_; ///< this rank's piece of each weight
  std::unique_ptr<Optimizer> optimizer_;

  bool in_step_ = false, backward_ = false;
  int micro_ = 0;          ///< the current micro-batch; the first is 1
  std::size_t at_ = kNone; ///< the current unit
  /// The unit whose parameters are in each slot.
  std::array<std::size_t, ShardSlots::kOfParameters> holds_;
  /// Of each unit: number of gradients that are not complete yet.
  std::vector<std::size_t> missing_;
  std::vector<Work> gathered_, reduced_, replicated_; ///< of each unit
  Passages passages_;
  Narrow narrow_;
  Buffer narrow_values_; ///< this rank's parameters as bfloat16, for sending
  /// Of each unit: not yet converted back to float32.
  std::vector<char> narrow_gathered_, narrow_reduced_;
  std::uint64_t gathered_elements_ = 0, reduced_elements_ = 0;
  /// Number of units whose gradients have not been sent to the replicas yet.
  std::size_t replicating_ = 0;
};

} // namespace rondo::training
