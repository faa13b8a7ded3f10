// cuDNN and cuBLAS without a GPU, on the streams of tests/device_cuda/fake: each call is a plain
// loop over what the libraries' documentation says, run where the stream comes to it.
#pragma once

#include <map>
#include <string>

namespace rondo::test {

/// While it lives, calls are counted, and one of them may fail. One at a time.
class FakeLibraries {
 public:
  FakeLibraries();
  ~FakeLibraries();

  /// Handles and descriptors that somebody still holds, by the function that made them.
  std::map<std::string, int> held() const;
  /// All calls of this function fail from now on; "": none.
  void fail(const std::string& function);
  /// Whether every handle multiplies floats as floats.
  bool pedantic() const;
};

} // namespace rondo::test
