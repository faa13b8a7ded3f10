// What each rank of a pipeline computes, sends and receives in one step, and in which order: a
// value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::training {

/// One thing that a rank does for one micro-batch.
enum class Task : std::uint8_t {
  receive_activation, ///< what the part before made, from the rank that has it
  forward,
  send_activation, ///< to the rank that has the next part
  receive_gradient,
  recompute, ///< the pass forward again, from the input that was kept
  backward,
  send_gradient, ///< of the part's input, to the rank that has the part before
  update,        ///< the optimizer, on all weights of the rank
};
std::string_view name(Task task);

struct Operation {
  Task task;
  int micro = 0; ///< the micro-batch
  int part = 0;  ///< the run of layers

  bool operator==(const Operation&) const = default;
};

/// A model is cut into stages * laps parts, runs of its layers. Part k is on rank k % stages: with
/// more than one lap a micro-batch goes round the ranks so often (Megatron's model chunks).
struct PipelineShape {
  int stages = 1, micro_batches = 1, laps = 1;
  bool recompute = false; ///< activations are made again before the pass back, not kept

  int parts() const { return stages * laps; }
  int rankOf(int part) const { return part % stages; }
};

struct Timetable {
  PipelineShape shape;
  bool trains = true; ///< forward and back, and an update; else forward only
  std::vector<std::vector<Operation>> ranks;
  /// Micro-batches times parts whose activations a rank may hold at once; by rank.
  std::vector<int> in_flight;
};

/// The order of one kind of pipeline: a line of kinds.def.
struct PipelineKind {
  std::string_view name, summary;
  bool laps; ///< takes more than one; others have one
  /// What the rank computes, forward and backward only, in its order.
  std::vector<Operation> (*order)(const PipelineShape& shape, int rank);
  /// As Timetable::in_flight.
  int (*in_flight)(const PipelineShape& shape, int rank);
  /// The share of all ranks' time in which they wait, if all parts take the same time and messages
  /// none: the bubble.
  double (*idle)(const PipelineShape& shape);
};

std::vector<const PipelineKind*> pipelineKinds();
/// Throws Error(invalid_argument), which lists what there is, for a name of none.
const PipelineKind& pipelineKind(std::string_view name);

/// One training step. Throws Error(invalid_argument) for a shape that the kind does not have: fewer
/// than one of anything; more laps than one on one stage, or with micro-batches that are not a
/// multiple of the stages.
Timetable makeTimetable(const PipelineKind& kind, PipelineShape shape);
/// Forward only, of so many batches.
Timetable evaluationTimetable(PipelineShape shape);

/// Puts sends and receives around what the ranks compute. Each message is sent right behind the
/// pass that makes it, and received right before the pass that needs it; sooner only where the next
/// message on the same channel is sent before that. All lists are cut from one list of everything,
/// in which no channel ever holds two messages: so no rank waits for ever, even where channels hold
/// only one, and both ends of a channel come to its messages in the same order.
void addMessages(Timetable& timetable);

} // namespace rondo::training
