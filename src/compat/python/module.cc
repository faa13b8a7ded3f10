// The Python module rondo._rondo: its classes and functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compat/python/errors.h"
#include "compat/python/future.h"
#include "compat/python/gradients.h"
#include "compat/python/open.h"
#include "compat/python/planning.h"
#include "compat/python/prepared.h"
#include "compat/python/rank.h"

namespace rondo::compat::python {

namespace {

CallInfo infoOf(const Rank& self, const char* name) {
  return {.name = name, .rank = self.rank(), .size = self.size()};
}

/// Runs a function of the communicator that is no collective call.
template <class Function>
auto ask(const Rank& self, const char* name, const Function& function) {
  return self.ask(infoOf(self, name), [&](OpenRank& rank) { return function(rank.comm()); });
}

/// Waits for the communicator that `start` makes on a thread. The thread keeps the group.
template <class Start>
auto making(const Rank& self, const char* name, const Start& start) {
  try {
    return untilSignal(ask(self, name, start));
  } catch (const Error& error) {
    raise(error, infoOf(self, name));
  }
}

std::unique_ptr<Rank> split(const Rank& self, std::optional<int> color, int key) {
  if (color && *color < 0) refuse("split", "color is negative; None stands for no group");
  auto made = making(self, "split", [&](Communicator& comm) {
    return comm.splitAsync(color.value_or(Communicator::kNoColor), key);
  });
  return made ? std::make_unique<Rank>(std::move(*made), self.family()) : nullptr;
}

std::unique_ptr<Rank> shrink(const Rank& self, const std::optional<std::vector<int>>& excluded) {
  auto made = making(self, "shrink", [&](Communicator& comm) {
    return excluded ? comm.shrinkAsync(*excluded) : comm.shrinkAsync();
  });
  return std::make_unique<Rank>(std::move(made), self.family());
}

std::unique_ptr<Rank> grow(const Rank& self, int newcomers,
                           const std::optional<nb::bytes>& unique_id) {
  std::optional<UniqueId> id;
  if (unique_id) id = idOf("grow", *unique_id);
  auto made =
      making(self, "grow", [&](Communicator& comm) { return comm.growAsync(newcomers, id); });
  return std::make_unique<Rank>(std::move(made), self.family());
}

bool arrived(const Rank& self, int peer) {
  return ask(self, "arrived", [&](Communicator& comm) { return comm.arrived(peer); });
}

nb::object failure(const Rank& self) {
  const auto error = ask(self, "failure", [](const Communicator& comm) { return comm.failure(); });
  if (!error) return nb::none();
  try {
    raise(*error, infoOf(self, "communicator"));
  } catch (const nb::python_error& raised) {
    return nb::borrow(raised.value());
  }
}

constexpr const char* kCommunicator = R"(
One rank of a fixed group of ranks that call collectives together.

All ranks make the same collective calls in the same order; a difference is an Error on every rank.
Arrays are NumPy arrays, objects with the buffer protocol, and arrays with __dlpack__ in host
memory. They must be C-contiguous and in native byte order, and are used where they are. Types:
int8 to int64, uint8 to uint64, float16, bfloat16, float8_e4m3fn, float8_e5m2, float32, float64.

Calls release the GIL while they wait. Ctrl-C ends a blocking call with KeyboardInterrupt; it
aborts the communicator, so that the other ranks' calls end too. In split(), shrink() and close() it
ends only the wait. No wait lasts for ever: after `timeout` (120 s) without progress it raises
Error. ArgumentError and DTypeError leave the communicator usable; other errors break it, and
shrink() makes a new one of the ranks that are left.

Each collective NAME() has a form NAME_async() that returns a Future.

As a context manager it is closed at the end. If an exception leaves the block, calls in flight are
not waited for; they end with an Error on all ranks.
)";

constexpr const char* kGrow = R"(
Collective. Returns a group of these ranks, in the same order, and of as many new ones.

One rank passes the id that rondo.unique_id() made; the new ranks call rondo.join() with it. If they
do not come in time, all ranks get an Error, and this communicator works as before.
)";

constexpr const char* kShrink = R"(
Collective over the ranks that are not excluded. Returns a group of these ranks in the same order.

The excluded ranks take no part and may be dead. It works after this communicator has failed.
None: the ranks agree whom to exclude, those that have died, do not respond, or have closed it.
)";

constexpr const char* kClose = R"(
Waits for this rank's calls and leaves the group. It may be called repeatedly.

Futures keep their results and errors. Reducers made with it raise ArgumentError from then on; if
one is within a step, the communicator is aborted, so that no other rank waits for the step.
)";

void addCommunicator(nb::module_& to) {
  nb::class_<Rank> communicator(to, "Communicator", nb::is_weak_referenceable(), kCommunicator);
  communicator.def_prop_ro("rank", &Rank::rank, "This rank's number, from 0.")
      .def_prop_ro("size", &Rank::size, "Number of ranks of the group.")
      .def_prop_ro("closed", &Rank::closed, "Whether close() has been called.")
      .def("split", &split, nb::arg("color").none(), nb::arg("key") = 0,
           nb::sig("def split(self, color: int | None, key: int = 0) -> Communicator | None"), R"(
Collective. Makes one group for each color, with its ranks ordered by key, then by rank.

A rank with color None takes part in the call, and gets None.

>>> rondo.run(lambda comm: comm.split(comm.rank % 2).size, ranks=3)
[2, 1, 2]
)")
      .def("shrink", &shrink, nb::arg("excluded") = nb::none(),
           nb::sig("def shrink(self, excluded: collections.abc.Sequence[int] | None = None) -> "
                   "Communicator"),
           kShrink)
      .def("grow", &grow, nb::arg("newcomers"), nb::arg("unique_id") = nb::none(),
           nb::sig("def grow(self, newcomers: int, unique_id: bytes | None = None) -> "
                   "Communicator"),
           kGrow)
      .def("arrived", &arrived, nb::arg("peer"),
           "Whether a message from peer has begun to arrive, for which no recv() was called yet.")
      .def(
          "abort",
          [](const Rank& self, const std::string& reason) {
            ask(self, "abort", [&](Communicator& comm) { comm.abort(reason); });
          },
          nb::arg("reason"),
          "Ends every pending and later call of every rank with an Error that has the reason.")
      .def("_abort_family", &Rank::abortFamily, nb::arg("reason"))
      .def("failure", &failure, nb::sig("def failure(self) -> BaseException | None"),
           "Returns the Error with which the communicator has failed, or None. Never waits.")
      .def(
          "transport_to",
          [](const Rank& self, int peer) {
            return ask(self, "transport_to",
                       [&](Communicator& comm) { return comm.transportTo(peer); });
          },
          nb::arg("peer"), R"(The transport to a peer: "inproc", "shm", "tcp", "self", ...)")
      .def(
          "close", [](Rank& self) { self.close(); }, kClose)
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Communicator"))
      .def(
          "__exit__",
          [](Rank& self, nb::handle, nb::handle raised, nb::handle) {
            self.close(Rank::failureBy(raised));
          },
          nb::arg("type").none(), nb::arg("raised").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: object, raised: object, traceback: object) -> None"))
      .def("__repr__", [](const Rank& self) {
        return "<rondo.Communicator rank " + std::to_string(self.rank()) + " of " +
               std::to_string(self.size()) + (self.closed() ? ", closed>" : ">");
      });
  addCalls(communicator);
  addBlockCalls(communicator);
}

void addFuture(nb::module_& to) {
  nb::class_<Future>(to, "Future", R"(
A call in flight. It keeps the call's arrays alive, also after the program has dropped the future.

`await future` waits on a thread of asyncio and gives the call's result.
)")
      .def("wait", &Future::wait, nb::arg("timeout") = nb::none(), R"(
Waits, at most for timeout seconds (None: until the call's own deadline).

Returns whether the call is done; raises its Error. Ctrl-C ends the wait, not the call.
)")
      .def("done", &Future::done, R"(
Whether the call is done, with or without success.

This alone gives a send or a receive no deadline; wait() and result() do. Collectives have theirs
in any case.
)")
      .def("result", &Future::result, nb::arg("timeout") = nb::none(),
           nb::sig("def result(self, timeout: float | None = None) -> typing.Any"),
           "Does what wait() does and returns what the blocking call returns. Raises TimeoutError.")
      .def(
          "__await__",
          [](nb::object self) {
            const auto result = nb::module_::import_("rondo._await").attr("result");
            return result(self).attr("__await__")();
          },
          nb::sig("def __await__(self) -> collections.abc.Generator"));
}

void addOperator(nb::module_& to) {
  nb::class_<ReduceOp>(to, "ReduceOp", "A reduction operator, as an argument of reductions.")
      .def(
          "__init__",
          [](ReduceOp* self, const std::string& name) {
            new (self) ReduceOp(operatorOf(nb::str(name.c_str()), "ReduceOp"));
          },
          nb::arg("name"))
      .def_static("scaled_sum", &ReduceOp::preMulSum, nb::arg("factor"),
                  "The sum; this rank's contribution is multiplied by the factor before.")
      .def("__repr__",
           [](const ReduceOp& self) { return "<rondo.ReduceOp " + std::string(name(self)) + ">"; });
}

} // namespace

} // namespace rondo::compat::python

NB_MODULE(_rondo, module) {
  using namespace rondo::compat::python;
  // Communicators are closed at exit; a program may leave objects in reference cycles.
  nb::set_leak_warnings(false);
  findErrors();
  findSignals();
  addOperator(module);
  addFuture(module);
  addCommunicator(module);
  addOpening(module);
  addGradients(module);
  addPlanning(module);
  module.def("_close_all", &Rank::closeAll);
  module.def("_program_ends", &Rank::programEnds, nb::arg("exception").none());
}
