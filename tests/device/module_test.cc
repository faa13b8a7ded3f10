// Tests how the library opens the module with the CUDA code, and what it says if it cannot.
#include "device/open_module.h"

#include <string>

#include "device/device.h"
#include "rondo/error.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using device::CudaModule;

// Proves: the module and the program have separate copies of Error's type information, since
// neither exports everything; a catch clause of the program takes the module's exceptions
// nevertheless.
TEST_CASE("errors of the CUDA module are caught with code and rank", "[device]") {
  std::string why = "unchanged";
  const CudaModule* const module = device::openModule(why, "librondo_cuda_stand_in.so");
  INFO(why);
  REQUIRE(module != nullptr);
  CHECK(why.empty());
  CHECK(module->beginRange("c") == 2);
  CHECK(says(caught([&] { module->open(1); }), ErrorCode::unsupported, {"device 1", "one GPU"}));
  try {
    module->open(0);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::system);
    CHECK(error.culprit() == 3);
  }
}

// Proves: a module of another version is refused, though it can be loaded.
TEST_CASE("a CUDA module without this version's symbol is not used", "[device]") {
  std::string why;
  CHECK(device::openModule(why, "libm.so.6") == nullptr);
  CHECK(why == "libm.so.6 has another version");
}

// Proves: to ask for a device without the module is an error of its own code, whose text names the
// device, the file and the reason. With the module, the error is about the GPU.
TEST_CASE("a device that cannot be opened for want of the module says so", "[device]") {
  std::string why;
  CHECK(device::openModule(why, "librondo_cuda_absent.so") == nullptr);
  CHECK(why.starts_with("librondo_cuda_absent.so: cannot open shared object file"));

  const bool built = device::openModule(why) != nullptr;
  const auto error = caught([] { device::openDevice(1000); });
  if (built) CHECK(says(error, ErrorCode::unsupported, {"device 1000: ", "GPU"}));
  else
    CHECK(says(error, ErrorCode::unsupported,
               {"device 1000: librondo_cuda.so: cannot open shared object file", "CUDA"}));
}

} // namespace
} // namespace rondo::test
