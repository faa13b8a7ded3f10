// Makes communicators for Python.
#pragma once

#include <nanobind/nanobind.h>

#include "rondo/rendezvous.h"

namespace rondo::compat::python {

/// The id in these bytes. Raises ArgumentError of `function` for another number of bytes.
UniqueId idOf(const char* function, const nanobind::bytes& bytes);

/// Adds init(), join(), threads() and unique_id() to the module.
void addOpening(nanobind::module_& to);

} // namespace rondo::compat::python
