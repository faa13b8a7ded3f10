// Implements compressGradients(): an all-reduce of the bucket as 16-bit floats.
#include <map>

#include "rondo/gradients.h"

namespace rondo {

namespace {

class Compress final : public GradientHook {
 public:
  explicit Compress(DataType type) : type_(type), codec_(narrowCodec(type)) {}

  std::string name() const override { return std::string(rondo::name(type_)); }
  bool supports(DataType type) const override { return type == DataType::float32; }

  Work start(Communicator& comm, GradientBucket& bucket) override {
    Buffer& memory = memory_[bucket.index];
    if (memory.size() < bytes(bucket)) memory = comm.allocate(bytes(bucket));
    codec_->encode({static_cast<const float*>(bucket.data), bucket.count},
                   static_cast<float>(bucket.factor), {}, memory.data());
    return comm.allReduceAsync(memory.data(), memory.data(), bucket.count, type_, ReduceOp::sum);
  }

  void finish(Communicator&, GradientBucket& bucket) override {
    codec_->decode(memory_.at(bucket.index).data(),
                   {static_cast<float*>(bucket.data), bucket.count});
  }

  std::uint64_t bytes(const GradientBucket& bucket) const override {
    return codec_->bytes(bucket.count);
  }

 private:
  const DataType type_;
  const std::unique_ptr<GradientCodec> codec_;
  std::map<std::size_t, Buffer> memory_; ///< by bucket
};

} // namespace

std::unique_ptr<GradientHook> compressGradients(DataType type) {
  return std::make_unique<Compress>(type);
}

} // namespace rondo
