// Python's arrays as Rondo sees them: address, number of elements, element type.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

#include "rondo/types.h"

namespace rondo::compat::python {

namespace nb = nanobind;

/// Which argument of which call an array is, for errors.
struct Argument {
  const char* call;
  const char* name;
};

/// An array in host memory that some Python object owns. It is used where it is; nothing is copied.
/// It keeps the object alive. Meanwhile a bytearray or array.array cannot be resized, and
/// ndarray.resize() refuses to reallocate, unless it is called with refcheck=False; for NumPy's
/// arrays the buffer protocol gives no better protection. All functions, also the destructor, need
/// the interpreter's lock.
class Array {
 public:
  enum class Access { read, write };

  /// No array: null, zero elements.
  Array() = default;
  /// Takes an object with the buffer protocol (NumPy arrays, array.array, bytearray), an array of
  /// ml_dtypes' types, or an object with __dlpack__ whose memory is the host's. Raises
  /// ArgumentError if it is not C-contiguous, is read-only but is to be written, or is no array;
  /// DTypeError if Rondo does not have the element type, or its bytes are in foreign order.
  Array(nb::handle object, const Argument& argument, Access access);

  void* data() const { return data_; }
  std::size_t count() const { return count_; }
  DataType type() const { return type_; }

 private:
  bool fromNumpy(nb::handle object, Access access);
  bool fromBuffer(nb::handle object, const Argument& argument, Access access);
  bool fromExtension(nb::handle object, const Argument& argument, Access access);
  bool fromDlpack(nb::handle object, const Argument& argument, Access access);

  void* data_ = nullptr;
  std::size_t count_ = 0;
  DataType type_ = DataType::uint8;
  nb::object owner_; ///< keeps the memory where it is
};

/// Returns a new NumPy array of this shape and of the type's NumPy name. bfloat16 and the 8-bit
/// floats need ml_dtypes.
nb::object newArray(nb::handle shape, DataType type);

} // namespace rondo::compat::python
