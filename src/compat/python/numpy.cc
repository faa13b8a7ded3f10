// Reads NumPy's object by its C ABI. For a buffer, NumPy makes a format string and allocates: with
// buffers, all_reduce of 8 bytes by 2 ranks takes 0.90 us in place of 0.58.
#include "compat/python/numpy.h"

#include <array>
#include <utility>

namespace rondo::compat::python {

namespace {

/// The first fields of NumPy's struct PyArrayObject_fields. Compiled extensions contain this
/// layout, so all versions of NumPy have it.
struct Fields {
  PyObject object;
  char* data;
  int dimensions;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};

constexpr int kContiguous = 0x1, kWritable = 0x400, kWarnOnWrite = 1 << 31;

/// Guarded by the interpreter's lock. Holds a reference to each object in it, so that no other
/// object can get its address while it is compared.
struct Known {
  PyObject* ndarray = nullptr; ///< NumPy's class; null: not found yet
  std::array<PyObject*, kDataTypeCount> dtypes{};
};
Known known;

const Fields& fieldsOf(nb::handle object) { return *reinterpret_cast<const Fields*>(object.ptr()); }

std::size_t countOf(const Fields& fields) {
  std::size_t count = 1;
  for (int i = 0; i < fields.dimensions; ++i) count *= static_cast<std::size_t>(fields.shape[i]);
  return count;
}

/// Sets known.ndarray, once the program has imported NumPy.
void findNumpy() {
  const nb::object module = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
  if (module.is_valid()) known.ndarray = nb::getattr(module, "ndarray", nb::none()).release().ptr();
  else PyErr_Clear();
}

/// Whether the fields are where NumPy's ABI has them.
bool asExpected(nb::handle object, const NumpyArray& array) {
  const auto bytes = nb::cast<std::size_t>(object.type().attr("__basicsize__"));
  if (bytes < sizeof(Fields)) return false;
  const Fields& fields = fieldsOf(object);
  return fields.data == array.data && fields.dtype == object.attr("dtype").ptr() &&
         fields.dimensions == nb::cast<int>(object.attr("ndim")) && countOf(fields) == array.count;
}

} // namespace

std::optional<NumpyArray> readNumpy(nb::handle object, bool write) {
  if (object.type().ptr() != known.ndarray) return std::nullopt;
  const Fields& fields = fieldsOf(object);
  const int needed = write ? kContiguous | kWritable : kContiguous;
  if ((fields.flags & (needed | kWarnOnWrite)) != needed) return std::nullopt;
  for (const DataType type : kDataTypes)
    if (known.dtypes[static_cast<std::size_t>(type)] == fields.dtype)
      return NumpyArray{fields.data, countOf(fields), type};
  return std::nullopt;
}

void learnNumpy(nb::handle object, const NumpyArray& array) {
  if (!known.ndarray) findNumpy();
  if (object.type().ptr() != known.ndarray || !asExpected(object, array)) return;
  PyObject* const dtype = nb::object(object.attr("dtype")).release().ptr();
  PyObject* const old = std::exchange(known.dtypes[static_cast<std::size_t>(array.type)], dtype);
  Py_XDECREF(old); // last: it may run Python code, which may call Rondo
}

} // namespace rondo::compat::python
