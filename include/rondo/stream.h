// The stream of a GPU that a communicator's calls go to.
#pragma once

namespace rondo {

/// A cudaStream_t, so that no CUDA header is needed here. A value; it owns nothing.
class Stream {
 public:
  /// The device's default stream.
  constexpr Stream() = default;
  explicit constexpr Stream(void* cuda_stream) : handle_(cuda_stream) {}

  constexpr void* handle() const { return handle_; }
  constexpr bool operator==(const Stream&) const = default;

 private:
  void* handle_ = nullptr;
};

} // namespace rondo
