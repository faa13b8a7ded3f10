// Implements narrowCodec(): gradients are multiplied by the factor and rounded to 16-bit floats.
#include <string>

#include "gradients/codecs/half.h"
#include "rondo/gradients.h"

namespace rondo {

namespace {

using From = float (*)(std::uint16_t);
using To = std::uint16_t (*)(float);

template <To convert, From back>
class Narrow final : public GradientCodec {
 public:
  std::size_t bytes(std::size_t count) const override { return count * sizeof(std::uint16_t); }
  bool sparse() const override { return false; }

  void encode(std::span<const float> gradients, float factor, std::span<float>,
              void* message) override {
    auto* const to = static_cast<std::uint16_t*>(message);
    for (std::size_t i = 0; i < gradients.size(); ++i) to[i] = convert(gradients[i] * factor);
  }

  void decode(const void* message, std::span<float> gradients) const override {
    const auto* const from = static_cast<const std::uint16_t*>(message);
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = back(from[i]);
  }
};

} // namespace

std::unique_ptr<GradientCodec> narrowCodec(DataType type) {
  using namespace gradients;
  if (type == DataType::float16) return std::make_unique<Narrow<toFloat16, fromFloat16>>();
  if (type == DataType::bfloat16) return std::make_unique<Narrow<toBfloat16, fromBfloat16>>();
  throw Error(ErrorCode::invalid_argument,
              "narrowCodec: " + std::string(name(type)) + "; the type must be float16 or bfloat16");
}

} // namespace rondo
