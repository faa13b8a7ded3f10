// Stands in for librondo_cuda.so, compiled and loaded as that is, on a machine with one GPU that
// cannot be opened.
#include <string>

#include "device/cuda/module.h"
#include "rondo/error.h"

namespace {

std::shared_ptr<rondo::device::Device> open(int number) {
  const std::string what = "device " + std::to_string(number) + ": ";
  if (number != 0)
    throw rondo::Error(rondo::ErrorCode::unsupported, what + "the stand-in has one GPU");
  throw rondo::Error(rondo::ErrorCode::system, what + "the stand-in's GPU fails", 3);
}

} // namespace

extern "C" __attribute__((visibility("default"))) const rondo::device::CudaModule* rondo_cuda_1() {
  static constexpr rondo::device::CudaModule kModule{
      open, [](const char* text) -> std::uint64_t { return text[0] == 'c' ? 2 : 0; },
      [](std::uint64_t) {}};
  return &kModule;
}
