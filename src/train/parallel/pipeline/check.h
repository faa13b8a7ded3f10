// Proves that a timetable is correct, or describes the first fault in a sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training {

/// The rules for timetables. A rule is checked only if all rules before it hold.
enum class TimetableRule : std::uint8_t {
  /// One list per rank; only micro-batches and parts that exist, and parts of that rank.
  well_formed,
  /// Each micro-batch passes each part once forward, then once backward; with recomputation, a
  /// recompute in between if the part has run another micro-batch since.
  once,
  data_flow, ///< a pass runs after its input was received; its output is sent once, after the pass
  matching,  ///< the i-th receive of a channel is for its i-th send (messages carry no tags)
  /// All ranks finish although a channel holds one message: a send waits for an empty channel, a
  /// receive waits for its message.
  deadlock,
  /// Each rank updates once, after all passes: both passes of a micro-batch use the weights from
  /// the beginning of the step.
  weights,
  in_flight, ///< no rank holds more activations at once than Timetable::in_flight
};
std::string_view name(TimetableRule rule);

struct TimetableFault {
  TimetableRule rule;
  std::string text; ///< names the rank, the micro-batch and the part
};

/// Returns the first fault, if there is one.
std::optional<TimetableFault> check(const Timetable& timetable);

/// The maximum number of (micro-batch, part) pairs whose activations the rank holds at once, from
/// the forward pass to the end of the backward pass. Inputs that were received early do not count.
int mostInFlight(const Timetable& timetable, int rank);

} // namespace rondo::training
