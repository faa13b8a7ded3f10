// Codec of top-k compression: selects the largest gradients, and defines the format of the message.
#pragma once

#include <cstdint>
#include <vector>

#include "rondo/gradients.h"

namespace rondo::gradients {

/// A message contains the indices in ascending order, then the values.
class TopK final : public GradientCodec {
 public:
  explicit TopK(double density);

  std::size_t bytes(std::size_t count) const override;
  bool sparse() const override { return true; }
  void encode(std::span<const float> gradients, float factor, std::span<float> kept,
              void* message) override;
  void decode(const void* message, std::span<float> gradients) const override;
  /// Adds factor * the values of the message to `gradients`.
  void add(const void* message, float factor, std::span<float> gradients) const;

 private:
  std::size_t sent(std::size_t count) const;

  const double density_;
  std::vector<std::uint32_t> order_; ///< scratch space for all indices
};

} // namespace rondo::gradients
