// NumPy's arrays, read without asking NumPy.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>

#include "rondo/types.h"

namespace rondo::compat::python {

namespace nb = nanobind;

/// What NumPy's object says of an array.
struct NumpyArray {
  void* data;
  std::size_t count;
  DataType type;
};

/// Returns the array of a numpy.ndarray (no class derived from it) that is C-contiguous and, if
/// `write` is set, writable, and whose dtype is known from learnNumpy(). The array is valid while
/// the caller holds a reference to the object: meanwhile ndarray.resize() refuses to reallocate,
/// unless it is called with refcheck=False; the buffer protocol gives no better protection. Needs
/// the interpreter's lock.
std::optional<NumpyArray> readNumpy(nb::handle object, bool write);

/// Remembers the dtype of an array that was read in another way, if the object is a numpy.ndarray
/// that has the expected layout. Needs the interpreter's lock.
void learnNumpy(nb::handle object, const NumpyArray& array);

} // namespace rondo::compat::python
