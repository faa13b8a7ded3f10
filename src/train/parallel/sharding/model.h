// A model whose optimizer state, gradients or parameters are shared out over ranks: what is sent
// when, and where everything stands meanwhile.
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
  std::vector<std::size_t> unit_bytes; ///< as shardLayout() takes its caps
  std::string optimizer;
  OptimizerSettings optimizer_settings; ///< sum_over_shards is the model's to set
  int micro_batches = 1;                ///< of a step, on this rank
  bool overlap =
      true; ///< gradients travel while the backward pass goes on; else each is waited for
  /// With ShardLevel::parameters: within the group parameters and gradients travel as bfloat16.
  /// This rank's pieces, their sums of gradients and the optimizer stay float32.
  bool narrow = false;
};

/// An array that has an element for each of a weight's, of which this rank holds one piece.
struct ShardedArray {
  std::string name;               ///< "weight.3.weight"
  std::vector<std::size_t> shape; ///< of the whole
  std::span<float> own;
  std::vector<std::size_t> counts, offsets; ///< of each rank's piece, in elements
};

/// One thread. A step is, for each micro-batch, beginForward(), the network's forward(),
/// beginBackward(), its backward() with stands(), endBackward(); then update(). Every rank calls
/// the same in the same order.
class ShardedModel {
 public:
  /// Collective. The ranks of `shards` share the model out. Those of `replicas`, if any, hold the
  /// same pieces of it, and add up their gradients. Gives the network's weights their memory and
  /// initial values; its state has memory already, and gets its values. What is passed must live as
  /// long.
  ShardedModel(Communicator& shards, Communicator* replicas, Network& network, std::uint64_t seed,
               ShardSettings settings);
  /// Where an exception has left a step it aborts the communicators, and returns when nothing of
  /// the step is on its way.
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  /// What the step's collectives take is shown there; null: nowhere.
  void observe(Timeline* timeline) { passages_.observe(timeline); }
  void beginForward();
  void beginBackward();
  /// The weight's gradient is complete. A unit's gradients leave with its last one.
  void stands(std::size_t weight);
  /// Waits until the gradients of all ranks are added up.
  void endBackward();
  /// The optimizer's step on this rank's piece. A limit of 0 clips nothing.
  void update(double learning_rate, float scale, double clip_limit);

  /// Before the network evaluates a batch.
  void beginEvaluation();
  /// Takes part in what the others' evaluation of a batch sends, without a batch.
  void passAlong();
  /// Collective. Calls `visit` for each unit in order, while all its parameters are there.
  void visitUnits(const std::function<void(const ShardUnit&, const float* values)>& visit);

  Optimizer& optimizer() { return *optimizer_; }
  /// This rank's part of each weight, and of its gradient.
  std::vector<Weight*> pieces();
  /// Weights, then what the optimizer keeps of them, named as a checkpoint names them.
  std::vector<ShardedArray> arrays();
  /// Collective. To be called when own pieces of weights were written.
  void published();

  const ShardLayout& layout() const { return layout_; }
  ShardLevel level() const { return settings_.level; }
  bool narrow() const { return settings_.narrow; }
  /// Elements that this group gathered and reduced so far.
  std::uint64_t gatheredElements() const { return gathered_elements_; }
  std::uint64_t reducedElements() const { return reduced_elements_; }
  /// All memory that it ever took, counted where it did; nothing is given back before it ends.
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
  void call(std::size_t unit);
  void reduce(std::size_t unit);
  void callReduce(std::size_t unit);
  void arrived(std::size_t unit);
  void shrinkOwn();
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
  std::vector<std::size_t> own_begin_, slot_begin_; ///< of each unit, of each slot; elements
  Buffer values_, gradients_, sums_, slots_;
  std::vector<Weight> pieces_; ///< this rank's part of each weight
  std::unique_ptr<Optimizer> optimizer_;

  bool in_step_ = false, backward_ = false;
  int micro_ = 0;          ///< the micro-batch at work; 1 is the first
  std::size_t at_ = kNone; ///< the unit at work
  std::array<std::size_t, ShardSlots::kOfParameters> holds_; ///< whose parameters are in each slot
  std::vector<std::size_t> missing_;                         ///< gradients of each unit
  std::vector<Work> gathered_, reduced_, replicated_;        ///< of each unit
  Passages passages_;
  Narrow narrow_;
  Buffer narrow_values_; ///< this rank's pieces of parameters, as they travel
  std::vector<char> narrow_gathered_, narrow_reduced_; ///< units that are to be widened yet
  std::uint64_t gathered_elements_ = 0, reduced_elements_ = 0;
  std::size_t replicating_ = 0; ///< units whose gradients do not yet go to the replicas
};

} // namespace rondo::training
