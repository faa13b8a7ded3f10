// Which values a dropout layer drops: the same in every backend.
#pragma once

#include <cstdint>
#include <string>

#include "rondo/detail/hash.h"
#include "train/layers/values.h"
#include "train/random.h"

namespace rondo::training {

/// Each sample has a sequence of random numbers. Its n-th value is dropped if the upper 32 bits of
/// the n-th number are below `limit`, otherwise it is multiplied by `kept`.
class Dropping {
 public:
  Dropping(const Dropout& value, const std::string& path)
      : limit(static_cast<std::uint64_t>(value.rate * 0x1p32)),
        kept(static_cast<float>(1 / (1 - value.rate))),
        layer_(detail::hashBytes(path.data(), path.size())) {}

  /// The start of a sample's sequence. Hashed, so that the sequences of neighbouring samples do not
  /// overlap.
  std::uint64_t start(std::uint64_t seed, std::uint32_t sample) const {
    return Random(Random(Random(seed).next() + layer_).next() + sample).next();
  }

  const std::uint64_t limit;
  const float kept;

 private:
  std::uint64_t layer_; ///< hash of the path, so that layers drop different values
};

} // namespace rondo::training
