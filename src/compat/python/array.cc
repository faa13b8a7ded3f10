// Reads arrays by NumPy's object, the buffer protocol, ml_dtypes' names and DLPack.
#include "compat/python/array.h"

#include <nanobind/ndarray.h>

#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compat/python/errors.h"
#include "compat/python/numpy.h"

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
    return detail::integerType(true, static_cast<std::size_t>(bytes));
  if (std::string_view("BHILQN").find(format) != std::string_view::npos)
    return detail::integerType(false, static_cast<std::size_t>(bytes));
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
  for (const detail::DataTypeTraits& row : detail::kDataTypeTraits)
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

/// The type that the dtype of the object names; nothing if Rondo does not have it.
std::optional<DataType> typeByName(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object.attr("dtype"), "name"))
    return std::nullopt;
  const std::string called = nb::str(object.attr("dtype").attr("name")).c_str();
  for (const DataType type : kDataTypes)
    if (called == traits(type).numpy) return type;
  return std::nullopt;
}

} // namespace

Array::Array(nb::handle object, const Argument& argument, Access access) {
  if (fromNumpy(object, access)) return;
  if (fromBuffer(object, argument, access) || fromExtension(object, argument, access)) {
    learnNumpy(object, {data_, count_, type_});
    return;
  }
  if (fromDlpack(object, argument, access)) return;
  if (nb::hasattr(object, "dtype") && !typeByName(object)) refuseElement(object, argument);
  refuse(argument.call,
         name(argument) + " is no array (" + textOf(object.type()) +
             "): it has neither the buffer protocol nor __dlpack__; pass a NumPy array");
}

bool Array::fromNumpy(nb::handle object, Access access) {
  const auto array = readNumpy(object, access == Access::write);
  if (!array) return false;
  data_ = array->data;
  count_ = array->count;
  type_ = array->type;
  owner_ = nb::borrow(object);
  return true;
}

namespace {

struct Buffer {
  Py_buffer view{};
  Buffer() = default;
  ~Buffer() { PyBuffer_Release(&view); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

/// An object of Python that owns `value`.
template <class T>
nb::object owning(std::unique_ptr<T> value) {
  return nb::capsule(value.release(), [](void* it) noexcept { delete static_cast<T*>(it); });
}

} // namespace

bool Array::fromBuffer(nb::handle object, const Argument& argument, Access access) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  auto buffer = std::make_unique<Buffer>();
  const Py_buffer& view = buffer->view;
  if (PyObject_GetBuffer(object.ptr(), &buffer->view, PyBUF_RECORDS_RO) != 0) {
    // NumPy's answer for types that the protocol does not know, as ml_dtypes' and dates.
    PyErr_Clear();
    return false;
  }
  if (!PyBuffer_IsContiguous(&view, 'C')) refuseLayout(object, argument);
  type_ = parse(object, view, argument);
  if (access == Access::write && view.readonly) refuseWrite(argument);
  data_ = view.buf;
  count_ = static_cast<std::size_t>(view.len) / sizeOf(type_);
  owner_ = owning(std::move(buffer));
  return true;
}

bool Array::fromExtension(nb::handle object, const Argument& argument, Access access) {
  const auto type = typeByName(object);
  // Types of other sizes are none of an extension's, and the views below would change the count.
  if (!type || sizeOf(*type) > 2 || !nb::hasattr(object, "view")) return false;
  const nb::object bits = object.attr("view")(sizeOf(*type) == 2 ? "uint16" : "uint8");
  if (!fromBuffer(bits, argument, access)) return false;
  type_ = *type;
  return true;
}

namespace {

std::optional<DataType> typeOf(const nb::dlpack::dtype& type) {
  for (const detail::DataTypeTraits& row : detail::kDataTypeTraits)
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
  nb::ndarray<nb::ro> tensor;
  const bool may_write = nb::try_cast(object, writable, false);
  if (may_write) tensor = nb::ndarray<nb::ro>(writable);
  else if (!nb::try_cast(object, tensor, false)) return false;
  if (tensor.device_type() != nb::device::cpu::value)
    refuse(argument.call, name(argument) +
                              " is not in host memory: arrays of devices are for the "
                              "C++ interface and for torch.distributed");
  const auto type = typeOf(tensor.dtype());
  if (!type) refuseElement(object, argument);
  if (!contiguous(tensor)) refuseLayout(object, argument);
  if (access == Access::write && !may_write) refuseWrite(argument);
  type_ = *type;
  data_ = const_cast<void*>(tensor.data());
  count_ = tensor.size();
  owner_ = owning(std::make_unique<nb::ndarray<nb::ro>>(std::move(tensor)));
  return true;
}

nb::object newArray(nb::handle shape, DataType type) {
  const std::string called(traits(type).numpy);
  const nb::module_ numpy = nb::module_::import_("numpy");
  const bool native = nb::hasattr(numpy, called.c_str());
  const nb::module_ names = native ? numpy : nb::module_::import_("ml_dtypes");
  return numpy.attr("empty")(shape, names.attr(called.c_str()));
}

} // namespace rondo::compat::python
