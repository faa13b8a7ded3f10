// compressGradients: the bucket in 16 bits, multiplied and rounded on the way in.
#include <map>

#include "gradients/half.h"
#include "rondo/gradients.h"

namespace rondo {

namespace {

template <class Narrow>
void narrow(const float* from, std::uint16_t* to, std::size_t count, float factor,
            const Narrow& convert) {
  for (std::size_t i = 0; i < count; ++i) to[i] = convert(from[i] * factor);
}

template <class Widen>
void widen(const std::uint16_t* from, float* to, std::size_t count, const Widen& convert) {
  for (std::size_t i = 0; i < count; ++i) to[i] = convert(from[i]);
}

class Compress final : public GradientHook {
 public:
  explicit Compress(DataType type) : type_(type) {
    if (type != DataType::float16 && type != DataType::bfloat16)
      throw Error(ErrorCode::invalid_argument,
                  "compressGradients: " + std::string(rondo::name(type)) +
                      "; there are float16 and bfloat16");
  }

  std::string name() const override { return std::string(rondo::name(type_)); }
  bool supports(DataType type) const override { return type == DataType::float32; }

  Work start(Communicator& comm, GradientBucket& bucket) override {
    Buffer& memory = memory_[bucket.index];
    const std::size_t bytes = bucket.count * sizeof(std::uint16_t);
    if (memory.size() < bytes) memory = comm.allocate(bytes);
    auto* const narrowed = static_cast<std::uint16_t*>(memory.data());
    const auto* const from = static_cast<const float*>(bucket.data);
    const auto factor = static_cast<float>(bucket.factor);
    if (type_ == DataType::float16)
      narrow(from, narrowed, bucket.count, factor, gradients::toFloat16);
    else narrow(from, narrowed, bucket.count, factor, gradients::toBfloat16);
    return comm.allReduceAsync(narrowed, narrowed, bucket.count, type_, ReduceOp::sum);
  }

  void finish(Communicator&, GradientBucket& bucket) override {
    const auto* const narrowed = static_cast<const std::uint16_t*>(memory_.at(bucket.index).data());
    auto* const to = static_cast<float*>(bucket.data);
    if (type_ == DataType::float16) widen(narrowed, to, bucket.count, gradients::fromFloat16);
    else widen(narrowed, to, bucket.count, gradients::fromBfloat16);
  }

  std::uint64_t bytes(const GradientBucket& bucket) const override {
    return bucket.count * sizeof(std::uint16_t);
  }

 private:
  const DataType type_;
  std::map<std::size_t, Buffer> memory_; ///< by bucket
};

} // namespace

std::unique_ptr<GradientHook> compressGradients(DataType type) {
  return std::make_unique<Compress>(type);
}

} // namespace rondo
