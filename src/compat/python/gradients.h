// GradientReducer for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace rondo::compat::python {

/// Adds GradientReducer to the module.
void addGradients(nanobind::module_& to);

} // namespace rondo::compat::python
