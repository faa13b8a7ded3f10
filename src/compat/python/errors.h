// Turns Rondo's errors into the exceptions of rondo/_errors.py.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "rondo/error.h"
#include "rondo/types.h"

namespace rondo::compat::python {

namespace nb = nanobind;

/// A call as errors name it. A plain value: texts are made only for errors.
struct CallInfo {
  const char* name = "";
  int rank = 0, size = 0; ///< size 0: the call has no communicator yet
  std::optional<DataType> type = std::nullopt;
  std::size_t count = 0; ///< elements that the call passes to C++
  std::optional<ReduceOp> op = std::nullopt;
  std::optional<int> root = std::nullopt, peer = std::nullopt;
  bool aborts = false; ///< a wrong argument aborts the communicator

  /// "all_reduce on rank 0 of 2: 6 elements of float32, sum".
  std::string text() const;
};

/// Imports the exceptions; to be called once, before the functions below.
void findErrors();

/// Raises rondo.Error, or rondo.ArgumentError for wrong arguments, unless they abort the
/// communicator. Needs the interpreter's lock.
[[noreturn]] void raise(const Error& error, const CallInfo& info);

/// Runs `make`, and raises its errors.
template <class Make>
auto raising(const char* call, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    raise(error, {.name = call});
  }
}
/// Raises rondo.ArgumentError: this rank's arguments are wrong, and nothing was sent.
[[noreturn]] void refuse(const char* call, const std::string& text);
/// Raises rondo.DTypeError: Rondo has no such element type.
[[noreturn]] void refuseType(const char* call, const std::string& text);

} // namespace rondo::compat::python
