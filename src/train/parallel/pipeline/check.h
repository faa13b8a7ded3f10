// Proves that a timetable is right, or says in a sentence what is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training {

/// What a timetable must satisfy; each is looked at only when those before it hold.
enum class TimetableRule : std::uint8_t {
  well_formed, ///< a list for each rank; micro-batches and parts that there are, on their ranks
  once,        ///< each micro-batch once forward through each part, once back, in this order; with
               ///< recomputation made again where the part ran another micro-batch in between
  data_flow,   ///< a pass runs behind the receipt of what it needs, and all it makes for others is
               ///< sent once, behind it
  matching,    ///< the i-th receive of a channel is for its i-th send: messages have no names
  deadlock,    ///< all ranks come to their ends, though channels hold one message, a send waits for
               ///< room and a receive for its message
  weights,     ///< each rank updates once, behind all passes: both passes of a micro-batch see the
               ///< weights that the step began with
  in_flight,   ///< no rank holds more activations at once than the timetable says
};
std::string_view name(TimetableRule rule);

struct TimetableFault {
  TimetableRule rule;
  std::string text; ///< names rank, micro-batch and part
};

/// The first fault that is found.
std::optional<TimetableFault> check(const Timetable& timetable);

/// The most micro-batches times parts that the rank holds at once, from the pass forward to the end
/// of the pass back; inputs that came before they were needed are not counted.
int mostInFlight(const Timetable& timetable, int rank);

} // namespace rondo::training
