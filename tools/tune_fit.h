// Fits parts of a link profile to measured times. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "model/profile.h"

namespace rondo::tools {

/// What two ranks measured with messages of one size. Seconds.
struct LinkSample {
  double bytes = 0;
  double half_trip = 0; ///< half a round trip
  double stream = 0;    ///< per message, if many follow each other in one direction
};

/// Seconds per byte with a working set of this size.
struct LevelSample {
  double working_set = 0, seconds_per_byte = 0;
};

/// The nearest values that do not fall (least squares, by pooling neighbours).
std::vector<double> neverFalling(std::vector<double> values);

/// The link whose half trips are `samples`, smoothed so that they do not fall with the size. What a
/// message costs a processor is assumed to be equal for sender and receiver: the smaller of the
/// stream's time and half of the half trip. `like` gives all that is not measured: slots, depth,
/// lines, lending. `samples`: at least two, by ascending size. Throws Error(invalid_argument).
model::LinkProfile fitLink(const std::vector<LinkSample>& samples, const model::LinkProfile& like);

/// Levels through the samples, smoothed likewise.
model::Levels fitLevels(const std::vector<LevelSample>& samples);

/// Half a round trip that the link predicts, without terms of the working set.
double halfTrip(const model::LinkProfile& link, double bytes);

/// Median and largest |predicted / measured - 1|; `pairs` are (predicted, measured).
model::Residual residualOf(const std::string& what,
                           const std::vector<std::pair<double, double>>& pairs);

} // namespace rondo::tools
