// The Python module rondo_torch._C: creates backends and defines their options.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "compat/torch/backend.h"

namespace py = pybind11;
using rondo::compat::Backend;

namespace {

using OptionsPointer = c10::intrusive_ptr<Backend::Options>;

c10::intrusive_ptr<c10d::Backend> create(const c10d::DistributedBackendOptions& place,
                                         const std::optional<OptionsPointer>& given) {
  auto options = c10::make_intrusive<Backend::Options>(
      std::chrono::duration_cast<std::chrono::milliseconds>(place.timeout));
  if (given) options->rondo = (*given)->rondo;
  options->group_name = place.group_id;
  options->global_ranks_in_group.assign(place.global_ranks_in_group.begin(),
                                        place.global_ranks_in_group.end());
  return c10::make_intrusive<Backend>(place.store, place.group_rank, place.group_size, options);
}

/// Defines a property of the Python class Options for a member of rondo::Options.
template <auto member, class Class>
void property(Class& bound, const char* name, const char* meaning) {
  using Value = std::decay_t<decltype(std::declval<rondo::Options>().*member)>;
  bound.def_property(
      name, [](const Backend::Options& self) { return self.rondo.*member; },
      [](Backend::Options& self, Value value) { self.rondo.*member = std::move(value); }, meaning);
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::module_::import("torch.distributed");
  py::class_<Backend::Options, OptionsPointer, c10d::Backend::Options> options(
      module, "Options",
      "pg_options of init_process_group() and new_group(): as the environment says (see `rondo "
      "help environment`), until set here. The timeout is init_process_group()'s.");
  options.def(py::init<>());
  property<&rondo::Options::algorithm>(options, "algorithm", "RONDO_ALGO");
  property<&rondo::Options::rules_file>(options, "rules_file", "RONDO_RULES_FILE");
  property<&rondo::Options::planner>(options, "planner", "RONDO_PLANNER");
  property<&rondo::Options::profile>(options, "profile", "RONDO_PROFILE");
  property<&rondo::Options::transports>(options, "transports", "RONDO_TRANSPORT");
  property<&rondo::Options::deterministic>(options, "deterministic", "RONDO_DETERMINISTIC");
  property<&rondo::Options::checksum>(options, "checksum", "RONDO_CHECKSUM");
  property<&rondo::Options::check_reductions>(options, "check_reductions",
                                              "RONDO_CHECK_REDUCTIONS");
  property<&rondo::Options::tls>(options, "tls", "RONDO_TLS");
  property<&rondo::Options::threads>(options, "threads", "RONDO_THREADS");
  property<&rondo::Options::node>(options, "node", "RONDO_NODE");
  property<&rondo::Options::socket_interface>(options, "socket_interface", "RONDO_SOCKET_IFNAME");
  py::class_<Backend, c10::intrusive_ptr<Backend>, c10d::Backend>(module, "ProcessGroupRondo")
      .def("_set_default_timeout", &Backend::setTimeout, py::arg("timeout"),
           py::call_guard<py::gil_scoped_release>())
      .def("_abort", py::overload_cast<const std::string&>(&Backend::abort), py::arg("reason"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("options", [](Backend& self) {
        return c10::static_intrusive_pointer_cast<Backend::Options>(self.getBackendOptions());
      });
  module.def("create", &create, py::arg("place"), py::arg("options") = py::none(),
             py::call_guard<py::gil_scoped_release>());
}
