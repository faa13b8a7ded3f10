// The arguments of one call of one rank on their way from Python to C++: checks that they fit
// together, and runs or starts the call.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "compat/python/array.h"
#include "compat/python/future.h"
#include "compat/python/rank.h"
#include "rondo/collective_call.h"
#include "rondo/communicator.h"

namespace rondo::compat::python {

/// A reduction operator from its name or from a rondo.ReduceOp. Raises ArgumentError.
ReduceOp operatorOf(nb::handle op, const char* call);

struct Prepared {
  const Rank& self;
  CallInfo info;
  Held held;

  Prepared(const Rank& of, const char* name)
      : self(of), info{.name = name, .rank = of.rank(), .size = of.size()} {}

  std::size_t ranks() const { return static_cast<std::size_t>(self.size()); }
  bool isRoot() const { return info.root == self.rank(); }

  void setRoot(int root);
  void setPeer(int peer);
  /// Takes `a`, and from it type and count of the call.
  void takeInput(nb::handle a, Array::Access access = Array::Access::read);
  /// Takes `a` as input and result of a call that works in place.
  void takeBoth(nb::handle a, Array::Access access);
  /// Takes `a`, and the array of the result: `out`, or `a` again if `out` is None. Returns the
  /// output's address.
  void* takeWithResult(nb::handle a, nb::handle out);
  /// Takes `out`, and from it type and count of the call.
  void takeOutput(nb::handle out);
  /// Takes `out`, which must have the input's type.
  void takeSameType(nb::handle out);
  /// The same; it must have `count` elements, and if it is None, is a new array of shape().
  template <class Shape>
  void takeOutput(nb::handle out, std::size_t count, const Shape& shape) {
    takeSameType(out.is_none() ? newArray(shape(), *info.type) : nb::borrow(out));
    requireCount(held.output.count(), count, "out");
  }

  void requireCount(std::size_t have, std::size_t need, const char* what) const;
  void requireRank(int rank, const char* what) const;
  /// The input's elements for each rank. Raises if ranks cannot share it evenly.
  std::size_t share() const;
  /// The input's shape as a tuple; (count,) if it does not say.
  nb::object shape(nb::handle a) const;

  void* input() const { return held.input.data(); }
  void* output() const { return held.output.data(); }
};

/// Runs the call by now(communicator), or starts it by later(communicator) and returns a Future.
template <bool kLater, class Now, class Later>
nb::object make(Prepared& at, const Now& now, const Later& later) {
  Future::reap();
  if constexpr (kLater) {
    Rank::goesOn();
    Work work = at.self.ask(at.info, [&](OpenRank& rank) { return later(rank.comm()); });
    return nb::cast(Future(std::move(work), std::move(at.held), at.info));
  } else {
    at.self.attend(at.info, [&](OpenRank& rank) { now(rank.comm()); });
    return std::move(at.held.result);
  }
}

/// A call with equal blocks: count, type, operator, root and peer are those of `at.info`.
template <bool kLater>
nb::object go(Prepared& at, Collective collective, const void* input, void* output,
              bool sending = false) {
  const CollectiveCall call{.collective = collective,
                            .input = input,
                            .output = output,
                            .count = at.info.count,
                            .type = at.info.type.value_or(DataType::uint8),
                            .op = at.info.op.value_or(ReduceOp::sum),
                            .root = at.info.peer.value_or(at.info.root.value_or(0)),
                            .sending = sending};
  return make<kLater>(
      at, [&](Communicator& comm) { comm.call(call); },
      [&](Communicator& comm) { return comm.callAsync(call); });
}

/// A call by two member functions of Communicator.
template <bool kLater, class... P>
nb::object go(Prepared& at, void (Communicator::*now)(P...), Work (Communicator::*later)(P...),
              std::type_identity_t<P>... args) {
  return make<kLater>(
      at, [&](Communicator& comm) { (comm.*now)(args...); },
      [&](Communicator& comm) { return (comm.*later)(args...); });
}

/// What Python's help says of a call: its parameters and types, its result, its text.
struct CallDoc {
  const char* name;
  const char* parameters; ///< after self
  const char* result;
  const char* text;
};

/// Adds a call to the class in both forms.
template <class Now, class Later, class... Extra>
void addCall(nb::class_<Rank>& to, const CallDoc& doc, Now now, Later later,
             const Extra&... extra) {
  const std::string name = doc.name, rest = std::string("(self") + doc.parameters + ") -> ";
  to.def(doc.name, now, extra..., nb::sig(("def " + name + rest + doc.result).c_str()), doc.text);
  const std::string text = "Starts " + name + "() and returns a Future; its result() is what " +
                           name + "() returns.\n\nThe arrays stay alive until the call is done. " +
                           "Do not change them before.";
  to.def((name + "_async").c_str(), later, extra...,
         nb::sig(("def " + name + "_async" + rest + "Future").c_str()), text.c_str());
}

/// Collectives and messages.
void addCalls(nb::class_<Rank>& to);
/// Collectives with blocks of different sizes.
void addBlockCalls(nb::class_<Rank>& to);

} // namespace rondo::compat::python
