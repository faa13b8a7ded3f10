// What each rank of a pipeline computes, sends and receives in one step, in order, as a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::training {

/// An operation of a rank on one micro-batch.
enum class Task : std::uint8_t {
  receive_activation, ///< the output of the previous part, from its rank
  forward,
  send_activation, ///< to the rank of the next part
  receive_gradient,
  recompute, ///< the forward pass again, from the stored input
  backward,
  send_gradient, ///< of the part's input, to the rank of the previous part
  update,        ///< the optimizer's step, on all weights of the rank
};
std::string_view name(Task task);

struct Operation {
  Task task;
  int micro = 0; ///< index of the micro-batch
  int part = 0;  ///< index of the part of the model

  bool operator==(const Operation&) const = default;
};

/// A model is cut into stages * laps parts of consecutive layers. Part k is on rank k % stages:
/// with several laps a micro-batch goes around the ranks `laps` times (Megatron's model chunks).
struct PipelineShape {
  int stages = 1, micro_batches = 1, laps = 1;
  bool recompute = false; ///< activations are recomputed before the backward pass, not kept

  int parts() const { return stages * laps; }
  int rankOf(int part) const { return part % stages; }
};

struct Timetable {
  PipelineShape shape;
  bool trains = true; ///< forward and backward passes and an update; otherwise forward passes only
  std::vector<std::vector<Operation>> ranks;
  /// For each rank, how many (micro-batch, part) pairs may have their activations in memory at
  /// once.
  std::vector<int> in_flight;
};

/// An order of passes: one line of kinds.def.
struct PipelineKind {
  std::string_view name, summary;
  bool laps; ///< accepts more than one lap; other kinds have one
  /// The forward and backward passes of the rank, in order.
  std::vector<Operation> (*order)(const PipelineShape& shape, int rank);
  /// The rank's entry of Timetable::in_flight.
  int (*in_flight)(const PipelineShape& shape, int rank);
  /// The fraction of all ranks' time in which they wait (the bubble), if all parts take the same
  /// time and messages take none.
  double (*idle)(const PipelineShape& shape);
};

std::vector<const PipelineKind*> pipelineKinds();
/// Throws Error(invalid_argument), with the valid names, if the name is unknown.
const PipelineKind& pipelineKind(std::string_view name);

/// The timetable of one training step. Throws Error(invalid_argument) for a shape that the kind
/// does not support: a count below 1; several laps on one stage; several laps with a number of
/// micro-batches that is not a multiple of the stages.
Timetable makeTimetable(const PipelineKind& kind, PipelineShape shape);
/// A timetable of forward passes only, for shape.micro_batches batches.
Timetable evaluationTimetable(PipelineShape shape);

/// Inserts sends and receives between the passes. Each message is sent directly after the pass that
/// makes it, and received directly before the pass that needs it; earlier only if the next message
/// of the same channel is sent before that. All lists are derived from one sequence of all
/// operations in which no channel ever holds two messages. Therefore no rank waits forever, even if
/// channels hold only one message, and both ends of a channel handle its messages in the same
/// order.
void addMessages(Timetable& timetable);

} // namespace rondo::training
