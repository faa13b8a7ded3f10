// Fakes of cuDNN and cuBLAS without a GPU, on the streams of tests/device/cuda/fake. Each call is a
// plain loop that does what the libraries' documentation says, and runs in stream order.
#pragma once

#include <map>
#include <string>

namespace rondo::test {

/// Counts calls while it exists, and can make one function fail. One instance at a time.
class FakeLibraries {
 public:
  FakeLibraries();
  ~FakeLibraries();

  /// Number of handles and descriptors that have not been destroyed, by kind.
  std::map<std::string, int> held() const;
  /// Makes all calls of this function fail from now on; "" for none.
  void fail(const std::string& function);
  /// Whether every handle multiplies in full float32.
  bool pedantic() const;
};

} // namespace rondo::test
