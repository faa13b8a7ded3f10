// Makes the texts of errors and raises them.
#include "compat/python/errors.h"

namespace rondo::compat::python {

std::string CallInfo::text() const {
  std::string text = name;
  if (size > 0) text += " on rank " + std::to_string(rank) + " of " + std::to_string(size);
  const char* separator = ": ";
  const auto add = [&](const std::string& part) {
    text += separator + part;
    separator = ", ";
  };
  if (type) add(std::to_string(count) + " elements of " + std::string(traits(*type).numpy));
  if (op) add(std::string(rondo::name(*op)));
  if (root) add("root " + std::to_string(*root));
  if (peer) add("peer " + std::to_string(*peer));
  return text;
}

namespace {

/// The module rondo._errors that came with this library. A program that imports another version of
/// Rondo has that one's module in sys.modules.
nb::handle errors;

[[noreturn]] void raiseAs(const char* type, const std::string& text, std::string_view code,
                          std::optional<int> culprit, const std::string& call) {
  const nb::object exception = errors.attr(type);
  const nb::object who = culprit ? nb::object(nb::int_(*culprit)) : nb::none();
  const nb::object instance =
      exception(text.c_str(), nb::str(code.data(), code.size()), who,
                call.empty() ? nb::none() : nb::object(nb::str(call.c_str())));
  PyErr_SetObject(exception.ptr(), instance.ptr());
  throw nb::python_error();
}

} // namespace

void findErrors() { errors = nb::module_::import_("rondo._errors").release(); }

void raise(const Error& error, const CallInfo& info) {
  const std::string call = info.text();
  const bool wrong = error.code() == ErrorCode::invalid_argument;
  const bool aborted = wrong && info.aborts;
  const int culprit = aborted ? info.rank : error.culprit();
  raiseAs(
      wrong && !aborted ? "ArgumentError" : "Error",
      call + ": " + error.what() +
          (aborted ? "; this rank has aborted the communicator, so that no rank waits for it" : ""),
      rondo::name(error.code()), culprit < 0 ? std::nullopt : std::optional(culprit), call);
}

void refuse(const char* call, const std::string& text) {
  raiseAs("ArgumentError", std::string(call) + ": " + text,
          rondo::name(ErrorCode::invalid_argument), std::nullopt, call);
}

void refuseType(const char* call, const std::string& text) {
  raiseAs("DTypeError", std::string(call) + ": " + text, rondo::name(ErrorCode::unsupported),
          std::nullopt, call);
}

} // namespace rondo::compat::python
