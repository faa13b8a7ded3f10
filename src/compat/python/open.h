// Makes communicators for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace rondo::compat::python {

/// Adds init(), threads() and unique_id() to the module.
void addOpening(nanobind::module_& to);

} // namespace rondo::compat::python
