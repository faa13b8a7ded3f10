// This rank's copy of a model, or of some of its layers: the network and the memory of its values.
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

/// The weights, for a GradientReducer.
std::vector<Parameter> parametersOf(std::span<Weight* const> weights);

class Replica {
 public:
  /// Initialises all values from the seed. Errors as of Network.
  Replica(const std::string& model, const SampleShape& input, std::size_t classes,
          std::uint64_t seed, Compute compute = {});
  /// Holds some of the layers, as Network does. Without a seed, weights get no memory, and no value
  /// is initialised: the caller does both.
  Replica(const LayerValues& layers, const SampleShape& input, LayerRange part,
          std::optional<std::uint64_t> seed, Compute compute = {});

  Network& network() { return network_; }
  std::span<Weight* const> weights() const { return weights_; }
  std::span<Weight* const> state() const { return state_; }
  /// Where a forward pass writes the statistics of its batch: one array for all running statistics.
  std::span<float> statistics() { return statistics_; }

  /// The name of the first weight or statistic with a value that is not finite; "" if there is
  /// none.
  std::string firstNotFinite() const;
  /// Hash of all values that it has memory for, including running statistics.
  std::uint64_t hash() const;
  /// All these values; they are equal on all ranks.
  std::span<float> values() { return values_; }

 private:
  Network network_;
  const std::vector<Weight*> weights_, state_;
  AlignedVector<float> values_, statistics_;
};

} // namespace rondo::training
