// This rank's copy of a model, or of some of its layers: the network, and the memory in which its
// values stand.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rondo/gradients.h"
#include "train/aligned.h"
#include "train/models/network.h"

namespace rondo::training {

class Replica {
 public:
  /// With the values that the seed gives. Errors as of Network.
  Replica(const std::string& model, const SampleShape& input, std::size_t classes,
          std::uint64_t seed, Compute compute = {});
  /// Of some of the layers, as Network has them. Without a seed the weights get no memory, and
  /// nothing its first values: both are for another to give.
  Replica(const LayerValues& layers, const SampleShape& input, LayerRange part,
          std::optional<std::uint64_t> seed, Compute compute = {});

  Network& network() { return network_; }
  std::span<Weight* const> weights() const { return weights_; }
  std::span<Weight* const> state() const { return state_; }
  /// The weights, for a GradientReducer.
  std::vector<Parameter> parameters() const;
  /// Where a forward pass puts the batch's own statistics: one array for all of the state.
  std::span<float> statistics() { return statistics_; }

  /// The name of the first weight or statistic with a value that is not finite; "": there is none.
  std::string firstNotFinite() const;
  /// Of all values that it has memory for, the state's too.
  std::uint64_t hash() const;
  /// All of these: those of all ranks are the same.
  std::span<float> values() { return values_; }

 private:
  Network network_;
  const std::vector<Weight*> weights_, state_;
  AlignedVector<float> values_, statistics_;
};

} // namespace rondo::training
