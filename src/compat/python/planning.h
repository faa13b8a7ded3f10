// Plans and predicted times for Python: questions that need no ranks.
#pragma once

#include <nanobind/nanobind.h>

namespace rondo::compat::python {

/// Adds plan(), predict() and simulate() to the module.
void addPlanning(nanobind::module_& to);

} // namespace rondo::compat::python
