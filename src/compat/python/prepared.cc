// Checks of arguments that concern more than one array.
#include "compat/python/prepared.h"

namespace rondo::compat::python {

ReduceOp operatorOf(nb::handle op, const char* call) {
  if (PyUnicode_Check(op.ptr())) {
    Py_ssize_t bytes = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(op.ptr(), &bytes);
    if (!text) throw nb::python_error();
    try {
      return parseReduceOp({text, static_cast<std::size_t>(bytes)});
    } catch (const Error& error) {
      refuse(call, error.what());
    }
  }
  ReduceOp value = ReduceOp::sum;
  if (!nb::try_cast(op, value, false))
    refuse(call, "op is neither a name, as \"sum\", nor a rondo.ReduceOp");
  return value;
}

void Prepared::setRoot(int root) {
  requireRank(root, "root");
  info.root = root;
}

void Prepared::setPeer(int peer) {
  requireRank(peer, "peer");
  info.peer = peer;
}

void Prepared::takeInput(nb::handle a, Array::Access access) {
  held.input = Array(a, {info.name, "a"}, access);
  info.type = held.input.type();
  info.count = held.input.count();
}

void Prepared::takeBoth(nb::handle a, Array::Access access) {
  takeInput(a, access);
  held.result = nb::borrow(a);
}

void* Prepared::takeWithResult(nb::handle a, nb::handle out) {
  if (out.is_none() || out.is(a)) {
    takeBoth(a, Array::Access::write);
    return input();
  }
  takeInput(a);
  takeSameType(out);
  requireCount(held.output.count(), info.count, "out");
  return output();
}

void Prepared::takeOutput(nb::handle out) {
  held.result = nb::borrow(out);
  held.output = Array(out, {info.name, "out"}, Array::Access::write);
  info.type = held.output.type();
  info.count = held.output.count();
}

void Prepared::takeSameType(nb::handle out) {
  held.result = nb::borrow(out);
  held.output = Array(out, {info.name, "out"}, Array::Access::write);
  if (held.output.type() != *info.type)
    refuse(info.name, "out has elements of type " + std::string(traits(held.output.type()).numpy) +
                          ", but a has " + std::string(traits(*info.type).numpy));
}

void Prepared::requireCount(std::size_t have, std::size_t need, const char* what) const {
  if (have != need)
    refuse(info.name, std::string(what) + " has " + std::to_string(have) +
                          " elements, but the call needs " + std::to_string(need));
}

void Prepared::requireRank(int rank, const char* what) const {
  if (rank < 0 || rank >= self.size())
    refuse(info.name, std::string(what) + " is " + std::to_string(rank) +
                          ", but the ranks are 0 to " + std::to_string(self.size() - 1));
}

std::size_t Prepared::share() const {
  const std::size_t count = held.input.count();
  if (count % ranks() != 0)
    refuse(info.name, "a has " + std::to_string(count) + " elements, which " +
                          std::to_string(ranks()) + " ranks cannot share evenly (" + info.name +
                          "v() takes blocks of different sizes)");
  return count / ranks();
}

nb::object Prepared::shape(nb::handle a) const {
  if (nb::hasattr(a, "shape")) return nb::tuple(a.attr("shape"));
  return nb::make_tuple(held.input.count());
}

} // namespace rondo::compat::python
