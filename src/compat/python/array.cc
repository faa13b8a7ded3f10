// Reads arrays by the buffer protocol, by ml_dtypes' names and by DLPack.
#include "compat/python/array.h"

#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compat/python/errors.h"

namespace rondo::compat::python {

namespace {

std::string name(const Argument& argument) { return argument.name; }

/// The text of Python's repr(), or a replacement if that fails.
std::string textOf(nb::handle object) {
  if (PyObject* const text = PyObject_Repr(object.ptr())) return nb::steal<nb::str>(text).c_str();
  PyErr_Clear();
  return "?";
}

/// The name of the element type that the object itself gives, or of its Python type.
std::string typeText(nb::handle object) {
  if (nb::hasattr(object, "dtype")) return "dtype " + textOf(object.attr("dtype"));
  return textOf(object.type());
}

/// The type of a format character of Python's module struct, with the size in the buffer.
std::optional<DataType> typeOf(char format, Py_ssize_t bytes) {
  if (std::string_view("bhilqn").find(format) != std::string_view::npos)
    return integerType(true, static_cast<std::size_t>(bytes));
  if (std::string_view("BHILQN").find(format) != std::string_view::npos)
    return integerType(false, static_cast<std::size_t>(bytes));
  if (format == 'e' && bytes == 2) return DataType::float16;
  if (format == 'f' && bytes == 4) return DataType::float32;
  if (format == 'd' && bytes == 8) return DataType::float64;
  return std::nullopt;
}

[[noreturn]] void refuseElement(nb::handle object, const Argument& argument) {
  std::string hint;
  const std::string text = typeText(object);
  if (text.find("bool") != std::string::npos) hint = "; pass a.view(numpy.uint8)";
  if (text.find("complex") != std::string::npos) hint = "; pass a.view(numpy.float64 or float32)";
  std::string known;
  for (const DataTypeTraits& row : kDataTypeTraits)
    known += (known.empty() ? "" : ", ") + std::string(row.numpy);
  refuseType(argument.call, name(argument) + " has elements that Rondo does not have (" + text +
                                "); it has " + known + hint);
}

[[noreturn]] void refuseLayout(nb::handle object, const Argument& argument) {
  std::string shape;
  if (nb::hasattr(object, "shape")) shape = " (shape " + textOf(object.attr("shape")) + ")";
  refuse(argument.call,
         name(argument) + " is not C-contiguous" + shape +
             ": pass a contiguous copy (numpy.ascontiguousarray(a), a.contiguous()), and "
             "copy outputs back");
}

[[noreturn]] void refuseWrite(const Argument& argument) {
  refuse(argument.call, name(argument) + " is read-only, but the call writes to it");
}

/// The type of a buffer's format string. Raises DTypeError.
DataType parse(nb::handle object, const Py_buffer& view, const Argument& argument) {
  const char* format = view.format ? view.format : "B";
  constexpr bool kLittle = std::endian::native == std::endian::little;
  const bool foreign = *format == (kLittle ? '>' : '<') || (kLittle && *format == '!');
  if (foreign && view.itemsize > 1)
    refuseType(argument.call, name(argument) + " has foreign byte order (" + typeText(object) +
                                  "): pass a.astype(a.dtype.newbyteorder('='))");
  if (std::string_view("@=<>!").find(*format) != std::string_view::npos && *format) ++format;
  const auto type = *format && !format[1] ? typeOf(*format, view.itemsize) : std::nullopt;
  if (!type) refuseElement(object, argument);
  return *type;
}

} // namespace

Array::Array(nb::handle object, const Argument& argument, Access access) {
  try {
    if (fromBuffer(object, argument, access) || fromExtension(object, argument, access) ||
        fromDlpack(object, argument, access))
      return;
  } catch (...) {
    release(); // a constructor that throws runs no destructor
    throw;
  }
  if (nb::hasattr(object, "dtype")) refuseElement(object, argument);
  refuse(argument.call, name(argument) + " is no array (" + textOf(object.type()) +
                            "): it has neither the buffer protocol nor __dlpack__");
}

bool Array::fromBuffer(nb::handle object, const Argument& argument, Access access) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_RECORDS_RO) != 0) {
    // NumPy's answer for types that the protocol does not know, as ml_dtypes' and dates.
    PyErr_Clear();
    view_.obj = nullptr;
    return false;
  }
  if (!PyBuffer_IsContiguous(&view_, 'C')) refuseLayout(object, argument);
  type_ = parse(object, view_, argument);
  if (access == Access::write && view_.readonly) refuseWrite(argument);
  data_ = view_.buf;
  count_ = static_cast<std::size_t>(view_.len) / sizeOf(type_);
  return true;
}

bool Array::fromExtension(nb::handle object, const Argument& argument, Access access) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view")) return false;
  const nb::object kind = object.attr("dtype");
  if (!nb::hasattr(kind, "name")) return false;
  const std::string called = nb::str(kind.attr("name")).c_str();
  for (const DataType type : kDataTypes) {
    if (called != traits(type).numpy) continue;
    const nb::object bits = object.attr("view")(sizeOf(type) == 2 ? "uint16" : "uint8");
    if (!fromBuffer(bits, argument, access)) return false;
    type_ = type;
    return true;
  }
  return false;
}

namespace {

std::optional<DataType> typeOf(const nb::dlpack::dtype& type) {
  for (const DataTypeTraits& row : kDataTypeTraits)
    if (type.lanes == 1 && type.code == row.dlpack && type.bits == 8 * row.bytes) return row.type;
  return std::nullopt;
}

bool contiguous(const nb::ndarray<nb::ro>& tensor) {
  if (tensor.size() == 0) return true;
  std::int64_t distance = 1;
  for (std::size_t i = tensor.ndim(); i-- > 0;) {
    if (tensor.shape(i) != 1 && tensor.stride(i) != distance) return false;
    distance *= static_cast<std::int64_t>(tensor.shape(i));
  }
  return true;
}

} // namespace

bool Array::fromDlpack(nb::handle object, const Argument& argument, Access access) {
  if (!nb::hasattr(object, "__dlpack__")) return false;
  nb::ndarray<> writable;
  const bool may_write = nb::try_cast(object, writable, false);
  if (may_write) {
    tensor_ = nb::ndarray<nb::ro>(writable);
  } else if (!nb::try_cast(object, tensor_, false)) {
    return false;
  }
  if (tensor_.device_type() != nb::device::cpu::value)
    refuse(argument.call, name(argument) +
                              " is not in host memory: arrays of devices are for the "
                              "C++ interface and for torch.distributed");
  const auto type = typeOf(tensor_.dtype());
  if (!type) refuseElement(object, argument);
  if (!contiguous(tensor_)) refuseLayout(object, argument);
  if (access == Access::write && !may_write) refuseWrite(argument);
  type_ = *type;
  data_ = const_cast<void*>(tensor_.data());
  count_ = tensor_.size();
  return true;
}

void Array::take(Array& other) noexcept {
  data_ = std::exchange(other.data_, nullptr);
  count_ = std::exchange(other.count_, 0);
  type_ = other.type_;
  // Releasing a view uses only its object and its private pointer, so a copy may release it.
  view_ = std::exchange(other.view_, Py_buffer{});
  tensor_ = std::move(other.tensor_);
}

void Array::release() {
  if (view_.obj) PyBuffer_Release(&view_);
  view_ = {};
  tensor_ = {};
  data_ = nullptr;
  count_ = 0;
}

nb::object newArray(nb::handle shape, DataType type) {
  const std::string called(traits(type).numpy);
  const nb::module_ numpy = nb::module_::import_("numpy");
  const bool native = nb::hasattr(numpy, called.c_str());
  const nb::module_ names = native ? numpy : nb::module_::import_("ml_dtypes");
  return numpy.attr("empty")(shape, names.attr(called.c_str()));
}

} // namespace rondo::compat::python
