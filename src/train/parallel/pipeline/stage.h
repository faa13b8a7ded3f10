// One rank's stage of a pipeline: its parts of the model, and what it does in a step.
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

/// A model in parts; part k of timetables is layers parts[k].
struct CutModel {
  LayerValues layers;
  SampleShape input;
  std::vector<LayerRange> parts;
  /// Of the first values; without it the weights' memory and all first values are for another to
  /// give.
  std::optional<std::uint64_t> seed;
  Compute compute{};
};

/// The micro-batches of one timetable.
struct MicroBatches {
  std::vector<std::size_t> counts; ///< samples of each
  /// Labels and numbers of one, and the inputs where they are asked for; good until the next call.
  std::function<Batch(int micro, bool inputs)> load;
};

/// One training step, as its owner wants it.
struct StageStep {
  const MicroBatches& micro_batches;
  Pass pass;
  /// Where the sum over the micro-batches of the gradients of weights()[i] is to stand.
  std::function<float*(std::size_t weight)> sum;
  /// It stands there. The owner may have it reduced over other pipelines meanwhile: the passes back
  /// of other parts, and of other stages, go on.
  GradientReady ready;
};

/// Passes of a part in the steps so far, in milliseconds.
struct PartTimes {
  double forward = 0, backward = 0;
  int passes = 0; ///< of either kind, by how many the sums are to be divided
};

/// Sends are copied and asynchronous, so that a rank goes on with its next pass at once; receives
/// are posted where the timetable has them, and waited for where they are needed. One thread.
class Stage {
 public:
  /// Rank r of `pipe` is stage r. With a `line` its ranks share the features of every layer out,
  /// and run the same timetables with the same micro-batches, each in its own pipeline; else the
  /// stage is this rank's alone. Errors as of Replica, or of TensorModel. What is passed by
  /// reference must live as long.
  Stage(Communicator& pipe, const CutModel& model, Communicator* line);
  /// Where an exception has left a run it aborts the communicator, and returns when nothing is on
  /// its way.
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Of all its parts, the first part's first; they have values. Weight::number is not the place
  /// among these.
  std::span<Weight* const> weights() const { return weights_; }
  std::span<Weight* const> state() const { return state_; }
  /// This rank's parts, and the network of each where they are this rank's alone.
  std::size_t parts() const { return own_.size(); }
  Network& network(std::size_t part) { return own_[part].replica->network(); }
  /// What its line shares out, by part; with a line.
  std::vector<TensorModel*> sliced();
  /// Sums over the micro-batches of the last step, where batches' own statistics stand: one array a
  /// part.
  std::vector<std::span<float>> statistics();
  /// As Network has them.
  void moveState(std::size_t batches);
  void weightsChanged();

  /// Collective over the pipe: all of the timetable but the update. Gives the sum of the losses, on
  /// the last stage; 0 elsewhere. Adds what passed to `clock`, whose name for each pass is its
  /// operation's.
  double train(const Timetable& timetable, const StageStep& step, StepClock& clock);
  /// Collective over the pipe: how many samples are classified rightly; on the last stage.
  std::size_t evaluate(const Timetable& timetable, const MicroBatches& micro_batches);

  /// Of the last step's passes forward that are still there: "layer 3", as Network has it.
  std::string firstNotFinite() const;
  /// By its own parts.
  const std::vector<PartTimes>& times() const { return times_; }
  void forgetTimes() { times_.assign(times_.size(), {}); }

 private:
  using Floats = AlignedVector<float>;
  struct Message {
    Floats* memory = nullptr;
    Work work;
  };
  /// A micro-batch between its arrival and the end of its pass back.
  struct Flight {
    Message input, gradient;
    std::size_t slot = 0;
    Floats *made = nullptr, *made_back = nullptr; ///< what is to be sent
  };
  struct Part {
    std::unique_ptr<Replica> replica; ///< null with a line
    std::unique_ptr<PartModel> model;
    int number = 0;
    std::size_t first_weight = 0;
    std::vector<Floats> beside; ///< gradients of a micro-batch behind the first
    Floats statistics;          ///< sums of those that came before
    std::map<int, Flight> flights;
    std::vector<std::size_t> free_slots;
    std::size_t slots = 0;
    int forwards = 0, backs = 0; ///< in this step
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
  const int parts_; ///< of the model
  std::deque<Part> own_;
  std::vector<Weight*> weights_, state_;
  std::vector<PartTimes> times_;
  std::deque<Floats> memory_;
  std::map<std::size_t, std::vector<Floats*>> free_; ///< by their size
  std::deque<Message> outgoing_;
  // Of the run at work.
  const Timetable* timetable_ = nullptr;
  const MicroBatches* micro_batches_ = nullptr;
  const StageStep* step_ = nullptr; ///< null: evaluation
  StepClock* clock_ = nullptr;
  double loss_ = 0;
  std::size_t correct_ = 0;
};

} // namespace rondo::training
