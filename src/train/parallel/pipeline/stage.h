// Runs one rank's stage of a pipeline: its parts of the model, by a timetable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/loop/replica.h"
#include "train/loop/stopwatch.h"
#include "train/parallel/part_model.h"
#include "train/parallel/pipeline/timetable.h"
#include "train/parallel/tensor/tensor_model.h"

namespace rondo::training {

/// A model and its parts: part k of a timetable is the layers parts[k].
struct CutModel {
  LayerValues layers;
  SampleShape input;
  std::vector<LayerRange> parts;
  /// Seed of the initial values. Without it the caller must provide memory and initial values of
  /// the weights.
  std::optional<std::uint64_t> seed;
  Compute compute{};
};

/// The micro-batches of one timetable.
struct MicroBatches {
  std::vector<std::size_t> counts; ///< number of samples of each
  /// Loads labels and sample numbers of one micro-batch, and its inputs if requested. Valid until
  /// the next call.
  std::function<Batch(int micro, bool inputs)> load;
};

/// The parameters of one training step.
struct StageStep {
  const MicroBatches& micro_batches;
  Pass pass;
  /// Where to write the gradient of weights()[weight], summed over the micro-batches.
  std::function<float*(std::size_t weight)> sum;
  /// Called when that sum has been written. The callee may start to reduce it over other pipelines
  /// while the backward passes of other parts and stages go on.
  GradientReady ready;
};

/// Durations of the passes of a part in the steps so far, in milliseconds.
struct PartTimes {
  double forward = 0, backward = 0;
  int passes = 0; ///< the number of forward passes, which is that of backward passes too
};

/// Sends are copied and asynchronous, so that a rank continues with its next pass at once. Receives
/// are posted where the timetable has them, and waited for where their data is needed. One thread.
class Stage {
 public:
  /// Rank r of `pipe` is stage r. If `line` is not null, its ranks form this stage together and
  /// share the features of every layer: they run the same timetables with the same micro-batches,
  /// each in its own pipeline. Throws the errors of Replica or TensorModel. References and pointers
  /// must outlive this object.
  Stage(Communicator& pipe, const CutModel& model, Communicator* line);
  /// If an exception ended a run, aborts the communicator and returns when no message is in flight.
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// The weights of all parts, in the order of the parts, with their values. The index in this list
  /// differs from Weight::number.
  std::span<Weight* const> weights() const { return weights_; }
  std::span<Weight* const> state() const { return state_; }
  /// Number of parts on this rank, and the network of each. network() is valid only without a line.
  std::size_t parts() const { return own_.size(); }
  Network& network(std::size_t part) { return own_[part].replica->network(); }
  /// The parts as tensor models. Valid only with a line.
  std::vector<TensorModel*> sliced();
  /// The statistics of the batches, summed over the micro-batches of the last step: one array per
  /// part.
  std::vector<std::span<float>> statistics();
  /// As in Network.
  void moveState(std::size_t samples);
  void weightsChanged();

  /// Collective over the pipe: runs the timetable, except the update. Returns the sum of the losses
  /// on the last stage, 0 elsewhere. Adds the durations to `clock`, where each pass has the name of
  /// its operation.
  double train(const Timetable& timetable, const StageStep& step, StepClock& clock);
  /// Collective over the pipe: returns the number of correctly classified samples on the last
  /// stage, 0 elsewhere.
  std::size_t evaluate(const Timetable& timetable, const MicroBatches& micro_batches);

  /// The first layer with a value that is not finite, among the forward passes of the last step
  /// that are still in memory: "layer 3", as in Network.
  std::string firstNotFinite() const;
  /// One entry for each part of this rank.
  const std::vector<PartTimes>& times() const { return times_; }
  void forgetTimes() { times_.assign(times_.size(), {}); }

 private:
  using Floats = AlignedVector<float>;
  struct Message {
    Floats* memory = nullptr;
    Work work;
  };
  /// The state of a micro-batch from its arrival to the end of its backward pass.
  struct Flight {
    Message input, gradient;
    std::size_t slot = 0;
    Floats *made = nullptr, *made_back = nullptr; ///< outputs to be sent
  };
  struct Part {
    std::unique_ptr<Replica> replica; ///< null with a line
    std::unique_ptr<PartModel> model;
    int number = 0;
    std::size_t first_weight = 0;
    std::vector<Floats> beside; ///< gradients of a micro-batch after the first
    Floats statistics;          ///< sums over the earlier micro-batches
    std::map<int, Flight> flights;
    std::vector<std::size_t> free_slots;
    std::size_t slots = 0;
    int forwards = 0, backs = 0; ///< passes in this step
    GradientReady stands;
  };

  void execute(const Timetable& timetable, const MicroBatches& micro_batches, StepClock& clock);
  void receive(const Operation& operation);
  void send(const Operation& operation);
  void await(Message& message);
  Batch load(Part& part, const Operation& operation, Flight& flight);
  void forward(const Operation& operation);
  void backward(const Operation& operation);
  void evaluateOne(const Operation& operation);
  void addStatistics(Part& part);
  void gradientStands(Part& part, std::size_t weight);
  std::size_t takeSlot(Part& part);
  Floats* take(std::size_t count);
  void give(Floats*& memory);
  Floats* copy(const float* values, std::size_t count);
  void settle(bool all);
  Part& partOf(const Operation& operation);
  std::size_t samples(const Operation& operation) const;
  PartTimes& partTimes(const Part& part);
  double lapPass(double TrainTimes::*to, const Operation& operation);
  void lapWaiting() { clock_->lap(&TrainTimes::communication, nullptr); }

  Communicator& pipe_;
  const int parts_; ///< parts of the whole model
  std::deque<Part> own_;
  std::vector<Weight*> weights_, state_;
  std::vector<PartTimes> times_;
  std::deque<Floats> memory_;
  std::map<std::size_t, std::vector<Floats*>> free_; ///< by size
  std::deque<Message> outgoing_;
  // State of the current run.
  const Timetable* timetable_ = nullptr;
  const MicroBatches* micro_batches_ = nullptr;
  const StageStep* step_ = nullptr; ///< null during evaluation
  StepClock* clock_ = nullptr;
  double loss_ = 0;
  std::size_t correct_ = 0;
};

} // namespace rondo::training
