// Tasks of a pipeline: passes on the resource of their rank, messages on the resource of their
// link.
#include "tools/simulate_train_pipeline.h"

#include <map>
#include <optional>
#include <tuple>

#include "rondo/error.h"
#include "tools/simulate_train_ranks.h"
#include "train/parallel/pipeline/cut.h"
#include "train/parallel/pipeline/timetable.h"

namespace rondo::tools {

namespace {

using training::Operation;
using training::Task;

/// Consecutive units of a model, on one rank.
struct Part {
  double forward = 0, backward = 0; ///< seconds of a micro-batch
  double bytes = 0;                 ///< of its output
};

std::vector<Part> partsOf(const StepModel& model, const training::PipelineShape& shape) {
  std::vector<Part> units(model.layers.back().unit + 1);
  for (const StepLayer& layer : model.layers) {
    Part& unit = units[layer.unit];
    unit.forward += layer.forward;
    unit.backward += layer.backward;
    unit.bytes = 4.0 * static_cast<double>(layer.outputs * model.samples);
  }
  const auto count = static_cast<std::size_t>(shape.parts());
  if (count > units.size())
    throw Error(ErrorCode::invalid_argument,
                "the pipeline has " + std::to_string(count) + " parts, but model " + model.name +
                    " can be cut into " + std::to_string(units.size()) + " at most");
  std::vector<double> costs;
  for (const Part& unit : units) costs.push_back(unit.forward + unit.backward);
  std::vector<Part> parts;
  for (const training::LayerRange& range : training::cutEvenly(costs, count)) {
    Part& part = parts.emplace_back();
    for (std::size_t i = range.begin; i < range.end; ++i) {
      part.forward += units[i].forward;
      part.backward += units[i].backward;
      part.bytes = units[i].bytes;
    }
  }
  return parts;
}

class Pipeline {
 public:
  explicit Pipeline(const StepQuestion& question)
      : question_(question),
        timetable_(training::makeTimetable(training::pipelineKind(question.options.pipeline.order),
                                           {.stages = question.ranks,
                                            .micro_batches = question.options.accumulate,
                                            .laps = question.options.pipeline.laps,
                                            .recompute = question.options.pipeline.recompute})),
        parts_(partsOf(question.model, timetable_.shape)),
        ranks_(question.options, differentRanks(question.options, question.ranks),
               question.processors, steps_.graph) {
    steps_.ranks = ranks_.numbers();
    const int micro = question.options.accumulate;
    for (int rank = 0; rank < question.ranks; ++rank) {
      double forward = 0, backward = 0;
      for (int part = 0; part < timetable_.shape.parts(); ++part)
        if (timetable_.shape.rankOf(part) == rank) {
          forward += micro * parts_[static_cast<std::size_t>(part)].forward;
          backward += micro * parts_[static_cast<std::size_t>(part)].backward;
        }
      // Only the rank of the first part loads samples.
      ranks_.computes(static_cast<std::size_t>(rank), rank == 0 ? question.model.data : 0, forward,
                      backward, question.model.optimizer / question.ranks);
    }
  }

  SimulatedSteps run() {
    for (int step = 0; step < question_.steps; ++step) {
      last_ = ranks_.begin(last_);
      messages_.clear();
      std::vector<std::size_t> next(last_.size());
      // A rank goes on until it receives a message that was not sent yet.
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t rank = 0; rank < next.size(); ++rank)
          while (next[rank] < timetable_.ranks[rank].size() &&
                 add(rank, timetable_.ranks[rank][next[rank]])) {
            ++next[rank];
            moved = true;
          }
      }
      steps_.ends.push_back(last_);
    }
    return std::move(steps_);
  }

 private:
  using Message = std::tuple<bool, int, int>; ///< whether forward; micro-batch; part that gets it

  bool add(std::size_t rank, const Operation& operation) {
    const Part& part = parts_[static_cast<std::size_t>(operation.part)];
    const std::string name =
        " " + std::to_string(operation.micro) + ", part " + std::to_string(operation.part);
    switch (operation.task) {
      case Task::receive_activation:
        return messages_.contains({true, operation.micro, operation.part});
      case Task::receive_gradient:
        return messages_.contains({false, operation.micro, operation.part});
      case Task::send_activation:
        send(rank, {true, operation.micro, operation.part + 1}, part.bytes);
        return true;
      case Task::send_gradient:
        send(rank, {false, operation.micro, operation.part - 1},
             parts_[static_cast<std::size_t>(operation.part - 1)].bytes);
        return true;
      case Task::forward:
        compute(rank, "forward" + name, part.forward,
                Message{true, operation.micro, operation.part});
        return true;
      case Task::recompute: compute(rank, "again" + name, part.forward); return true;
      case Task::backward:
        compute(rank, "backward" + name, part.backward,
                Message{false, operation.micro, operation.part});
        return true;
      case Task::update:
        compute(rank, "optimizer", question_.model.optimizer / question_.ranks);
        return true;
    }
    return false;
  }

  /// A pass waits for its input, if that comes from another part.
  void compute(std::size_t rank, const std::string& name, double seconds,
               const std::optional<Message>& input = {}) {
    std::vector<std::uint32_t> after{last_[rank]};
    if (const auto found = input ? messages_.find(*input) : messages_.end();
        found != messages_.end())
      after.push_back(found->second);
    last_[rank] = ranks_.compute(rank, name, seconds, after);
  }

  void send(std::size_t rank, const Message& message, double bytes) {
    const int to = timetable_.shape.rankOf(std::get<2>(message));
    const std::pair link(static_cast<int>(rank), to);
    if (!links_.contains(link))
      links_[link] =
          steps_.graph.addResource({.owner = "network",
                                    .name = std::to_string(rank) + " to " + std::to_string(to),
                                    .rank = static_cast<int>(rank)});
    const bool forward = std::get<0>(message);
    messages_[message] = steps_.graph.add(
        {.name = (forward ? "activation " : "gradient ") + std::to_string(std::get<1>(message)),
         .seconds = to == link.first ? 0 : question_.message(link.first, to, bytes),
         .resources = {links_[link]},
         .after = {last_[rank]},
         .communication = true,
         .bytes = bytes,
         .to = to});
  }

  const StepQuestion& question_;
  const training::Timetable timetable_;
  const std::vector<Part> parts_;
  SimulatedSteps steps_;
  StepRanks ranks_;
  std::vector<std::uint32_t> last_; ///< the last task of each rank
  std::map<Message, std::uint32_t> messages_;
  std::map<std::pair<int, int>, std::uint32_t> links_;
};

} // namespace

SimulatedSteps pipelineSteps(const StepQuestion& question) { return Pipeline(question).run(); }

} // namespace rondo::tools
