// Fills buckets with parameters in a given order, separately for each type.
#include "gradients/assign.h"

#include <algorithm>
#include <map>

namespace rondo::gradients {

namespace {

std::size_t aligned(std::size_t elements, DataType type) {
  const std::size_t grain = kAlignment / sizeOf(type);
  return (elements + grain - 1) / grain * grain;
}

/// The bucket of a type that is still being filled.
struct Open {
  GradientBucket bucket;
  std::size_t bytes = 0;  ///< of its parameters
  std::size_t closed = 0; ///< number of earlier buckets of this type
};

/// A complete bucket, and the place in the order of its last parameter.
struct Full {
  std::size_t last = 0;
  GradientBucket bucket;
};

void append(Open& open, std::size_t number, const Parameter& parameter) {
  GradientBucket& bucket = open.bucket;
  bucket.type = parameter.type;
  bucket.parameters.push_back(number);
  bucket.offsets.push_back(bucket.count);
  bucket.shapes.push_back(parameter.shape);
  bucket.count = aligned(bucket.count + parameter.count(), parameter.type);
  open.bytes += parameter.bytes();
}

} // namespace

std::vector<GradientBucket> assignBuckets(std::span<const Parameter> parameters,
                                          std::span<const std::size_t> order,
                                          std::span<const std::size_t> caps) {
  std::map<DataType, Open> open;
  std::map<DataType, std::size_t> last;
  std::vector<Full> full;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const Parameter& parameter = parameters[order[place]];
    Open& into = open[parameter.type];
    append(into, order[place], parameter);
    last[parameter.type] = place;
    if (into.bytes < caps[std::min(into.closed, caps.size() - 1)]) continue;
    full.push_back({place, std::move(into.bucket)});
    into = {.bucket = {}, .bytes = 0, .closed = into.closed + 1};
  }
  for (auto& [type, rest] : open)
    if (!rest.bucket.parameters.empty()) full.push_back({last[type], std::move(rest.bucket)});
  std::sort(full.begin(), full.end(), [](const Full& a, const Full& b) { return a.last < b.last; });

  std::vector<GradientBucket> buckets;
  for (Full& one : full) {
    one.bucket.index = buckets.size();
    buckets.push_back(std::move(one.bucket));
  }
  return buckets;
}

} // namespace rondo::gradients
