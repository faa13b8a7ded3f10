// The collectives with equal blocks, and messages, as methods of Python's Communicator.
#include <cstdint>

#include "compat/python/prepared.h"

namespace rondo::compat::python {

namespace {

using Access = Array::Access;

template <bool kLater>
nb::object allReduce(const Rank& self, nb::handle a, nb::handle op, nb::handle out) {
  Prepared at(self, "all_reduce");
  at.info.op = operatorOf(op, at.info.name);
  void* const output = at.takeWithResult(a, out);
  return go<kLater>(at, Collective::allreduce, at.input(), output);
}
constexpr CallDoc kAllReduce{"all_reduce",
                             ", a: typing.Any, op: str | ReduceOp = 'sum', out: typing.Any = None",
                             "typing.Any", R"(
Combines one array of every rank, element by element, and gives the result to all ranks.

a    array of any shape; the number of elements and the type are the same on all ranks
op   "sum", "prod", "min", "max", "avg", for integers also "band", "bor", "bxor"; or a ReduceOp
out  array of the same number and type; None: the result replaces a
Returns out, or a. 16- and 8-bit floats are combined in float32.

>>> def job(comm):
...     return comm.all_reduce(numpy.full(3, comm.rank + 1.0))
>>> rondo.run(job, ranks=2)
[array([3., 3., 3.]), array([3., 3., 3.])]
)"};

/// Scan and ExclusiveScan.
template <Collective kCollective, bool kLater>
nb::object scan(const Rank& self, nb::handle a, nb::handle op, nb::handle out) {
  Prepared at(self, kCollective == Collective::scan ? "scan" : "exclusive_scan");
  at.info.op = operatorOf(op, at.info.name);
  void* const output = at.takeWithResult(a, out);
  return go<kLater>(at, kCollective, at.input(), output);
}
constexpr CallDoc kScan{
    "scan", ", a: typing.Any, op: str | ReduceOp = 'sum', out: typing.Any = None", "typing.Any", R"(
Combines the arrays of ranks 0 to this one, in this order (MPI_Scan).

a    array of any shape; the number of elements and the type are the same on all ranks
out  array of the same number and type; None: the result replaces a
Returns out, or a.

>>> rondo.run(lambda comm: comm.scan(numpy.array([comm.rank + 1])), ranks=3)
[array([1]), array([3]), array([6])]
)"};
constexpr CallDoc kExclusiveScan{
    "exclusive_scan", ", a: typing.Any, op: str | ReduceOp = 'sum', out: typing.Any = None",
    "typing.Any", R"(
Does what scan() does, without this rank's own array (MPI_Exscan). Rank 0's result is not written.

>>> rondo.run(lambda comm: comm.exclusive_scan(numpy.array([comm.rank + 1])), ranks=3)
[array([1]), array([1]), array([3])]
)"};

template <bool kLater>
nb::object reduce(const Rank& self, nb::handle a, nb::handle op, int root, nb::handle out) {
  Prepared at(self, "reduce");
  at.info.op = operatorOf(op, at.info.name);
  at.setRoot(root);
  void* output = nullptr;
  if (at.isRoot()) output = at.takeWithResult(a, out);
  else at.takeInput(a);
  return go<kLater>(at, Collective::reduce, at.input(), output);
}
constexpr CallDoc kReduce{
    "reduce", ", a: typing.Any, op: str | ReduceOp = 'sum', root: int = 0, out: typing.Any = None",
    "typing.Any", R"(
Does what all_reduce() does, but only root gets the result. Other ranks' arrays keep their values.

out  is used on root only; None: the result replaces a
Returns out or a on root, None on other ranks.

>>> rondo.run(lambda comm: comm.reduce(numpy.array([1, comm.rank]), "max", root=1), ranks=2)
[None, array([1, 1])]
)"};

template <bool kLater>
nb::object broadcast(const Rank& self, nb::handle a, int root) {
  Prepared at(self, "broadcast");
  at.setRoot(root);
  at.takeBoth(a, at.isRoot() ? Access::read : Access::write);
  return go<kLater>(at, Collective::broadcast, at.input(), at.input());
}
constexpr CallDoc kBroadcast{"broadcast", ", a: typing.Any, root: int = 0", "typing.Any", R"(
Copies root's array to all ranks, in place.

a  array of any shape; the number of elements and the type are the same on all ranks
Returns a.

>>> rondo.run(lambda comm: comm.broadcast(numpy.full(2, comm.rank), root=1), ranks=2)
[array([1, 1]), array([1, 1])]
)"};

template <bool kLater>
nb::object reduceScatter(const Rank& self, nb::handle a, nb::handle op, nb::handle out) {
  Prepared at(self, "reduce_scatter");
  at.info.op = operatorOf(op, at.info.name);
  at.takeInput(a);
  const std::size_t share = at.info.count = at.share();
  at.takeOutput(out, share, [&] { return nb::make_tuple(share); });
  return go<kLater>(at, Collective::reducescatter, at.input(), at.output());
}
constexpr CallDoc kReduceScatter{
    "reduce_scatter", ", a: typing.Any, op: str | ReduceOp = 'sum', out: typing.Any = None",
    "typing.Any", R"(
Combines one array of every rank; rank r gets the r-th of `size` equal parts of the result.

a    array of size * n elements
out  array of n elements; None: a new NumPy array of shape (n,). It may be part r of a.
Returns out.

>>> rondo.run(lambda comm: comm.reduce_scatter(numpy.arange(4)), ranks=2)
[array([0, 2]), array([4, 6])]
)"};

template <bool kLater>
nb::object scatter(const Rank& self, nb::handle a, nb::handle out, int root) {
  Prepared at(self, "scatter");
  at.setRoot(root);
  if (at.isRoot()) {
    at.takeInput(a);
    at.info.count = at.share();
    at.takeSameType(out);
    at.requireCount(at.held.output.count(), at.info.count, "out");
  } else {
    at.takeOutput(out);
  }
  return go<kLater>(at, Collective::scatter, at.input(), at.output());
}
constexpr CallDoc kScatter{"scatter", ", a: typing.Any, out: typing.Any, root: int = 0",
                           "typing.Any", R"(
Distributes root's array: rank r gets the r-th of `size` equal parts.

a    on root: array of size * n elements; elsewhere it is not used, and may be None
out  array of n elements
Returns out.

>>> def job(comm):
...     a = numpy.arange(4) if comm.rank == 0 else None
...     return comm.scatter(a, numpy.empty(2, int))
>>> rondo.run(job, ranks=2)
[array([0, 1]), array([2, 3])]
)"};

template <bool kLater>
nb::object gather(const Rank& self, nb::handle a, int root, nb::handle out) {
  Prepared at(self, "gather");
  at.setRoot(root);
  at.takeInput(a);
  if (at.isRoot())
    at.takeOutput(out, at.info.count * at.ranks(),
                  [&] { return nb::make_tuple(self.size()) + at.shape(a); });
  return go<kLater>(at, Collective::gather, at.input(), at.output());
}
constexpr CallDoc kGather{"gather", ", a: typing.Any, root: int = 0, out: typing.Any = None",
                          "typing.Any", R"(
Collects one array of every rank on root, in the order of the ranks.

a    array of n elements; n and the type are the same on all ranks
out  on root: array of size * n elements; None: a new NumPy array of shape (size, *a.shape)
Returns out on root, None on other ranks.

>>> rondo.run(lambda comm: comm.gather(numpy.array([comm.rank, 7])), ranks=2)
[array([[0, 7],
       [1, 7]]), None]
)"};

template <bool kLater>
nb::object allGather(const Rank& self, nb::handle a, nb::handle out) {
  Prepared at(self, "all_gather");
  at.takeInput(a);
  at.takeOutput(out, at.info.count * at.ranks(),
                [&] { return nb::make_tuple(self.size()) + at.shape(a); });
  return go<kLater>(at, Collective::allgather, at.input(), at.output());
}
constexpr CallDoc kAllGather{"all_gather", ", a: typing.Any, out: typing.Any = None", "typing.Any",
                             R"(
Collects one array of every rank on all ranks, in the order of the ranks.

a    array of n elements; n and the type are the same on all ranks
out  array of size * n elements; None: a new NumPy array of shape (size, *a.shape)
Returns out.

>>> rondo.run(lambda comm: comm.all_gather(numpy.array([comm.rank])), ranks=2)[0].tolist()
[[0], [1]]
)"};

template <bool kLater>
nb::object allToAll(const Rank& self, nb::handle a, nb::handle out) {
  Prepared at(self, "all_to_all");
  at.takeInput(a);
  const std::size_t share = at.share();
  at.takeOutput(out, at.info.count, [&] { return at.shape(a); });
  at.info.count = share;
  return go<kLater>(at, Collective::alltoall, at.input(), at.output());
}
constexpr CallDoc kAllToAll{"all_to_all", ", a: typing.Any, out: typing.Any = None", "typing.Any",
                            R"(
Exchanges parts between all ranks: part s of rank r's out is part r of rank s's a.

a    array of size * n elements
out  array of size * n elements that does not overlap a; None: a new NumPy array of a's shape
Returns out.

>>> rondo.run(lambda comm: comm.all_to_all(numpy.array([0, 1]) + 10 * comm.rank), ranks=2)
[array([ 0, 10]), array([ 1, 11])]
)"};

template <bool kLater>
nb::object barrier(const Rank& self) {
  Prepared at(self, "barrier");
  return go<kLater>(at, Collective::barrier, nullptr, nullptr);
}
constexpr CallDoc kBarrier{"barrier", "", "None", "Returns after every rank has entered it."};

template <bool kLater>
nb::object send(const Rank& self, nb::handle a, int peer) {
  Prepared at(self, "send");
  at.setPeer(peer);
  at.takeInput(a);
  return go<kLater>(at, Collective::sendrecv, at.input(), nullptr, true);
}
constexpr CallDoc kSend{"send", ", a: typing.Any, peer: int", "None", R"(
Sends an array to a rank, which must receive it by recv() with the same number and type.

Messages between two ranks match in the order of the calls. send() returns when a may be changed,
which may be before the peer has received it.

>>> def job(comm):
...     if comm.rank == 0:
...         comm.send(numpy.arange(3), peer=1)
...     else:
...         return comm.recv(numpy.empty(3, int), peer=0)
>>> rondo.run(job, ranks=2)
[None, array([0, 1, 2])]
)"};

template <bool kLater>
nb::object recv(const Rank& self, nb::handle a, int peer) {
  Prepared at(self, "recv");
  at.setPeer(peer);
  at.takeBoth(a, Access::write);
  return go<kLater>(at, Collective::sendrecv, nullptr, at.input());
}
constexpr CallDoc kRecv{"recv", ", a: typing.Any, peer: int", "typing.Any",
                        "Receives into a what peer sends by send(). Returns a."};

} // namespace

void addCalls(nb::class_<Rank>& to) {
  const auto a = nb::arg("a").none(), out = nb::arg("out").none();
  const nb::arg peer("peer");
  const auto no_out = nb::arg("out") = nb::none();
  const auto sum = nb::arg("op") = "sum";
  const auto first = nb::arg("root") = 0;
  addCall(to, kAllReduce, allReduce<false>, allReduce<true>, a, sum, no_out);
  addCall(to, kScan, scan<Collective::scan, false>, scan<Collective::scan, true>, a, sum, no_out);
  addCall(to, kExclusiveScan, scan<Collective::exclusivescan, false>,
          scan<Collective::exclusivescan, true>, a, sum, no_out);
  addCall(to, kReduce, reduce<false>, reduce<true>, a, sum, first, no_out);
  addCall(to, kBroadcast, broadcast<false>, broadcast<true>, a, first);
  addCall(to, kReduceScatter, reduceScatter<false>, reduceScatter<true>, a, sum, no_out);
  addCall(to, kScatter, scatter<false>, scatter<true>, a, out, first);
  addCall(to, kGather, gather<false>, gather<true>, a, first, no_out);
  addCall(to, kAllGather, allGather<false>, allGather<true>, a, no_out);
  addCall(to, kAllToAll, allToAll<false>, allToAll<true>, a, no_out);
  addCall(to, kBarrier, barrier<false>, barrier<true>);
  addCall(to, kSend, send<false>, send<true>, a, peer);
  addCall(to, kRecv, recv<false>, recv<true>, a, peer);
}

} // namespace rondo::compat::python
