// The collectives with blocks of different sizes as methods of Python's Communicator.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compat/python/prepared.h"

namespace rondo::compat::python {

namespace {

using C = Communicator;
using Counts = std::vector<std::size_t>;
using MaybeCounts = std::optional<Counts>;

/// Counts and offsets of one array's blocks.
struct OwnedBlocks {
  Counts counts, offsets;
  operator Blocks() const { return {counts, offsets}; }
};

/// Checks that the blocks are inside an array of `elements`. Without offsets they are packed.
OwnedBlocks blocksOf(const Prepared& at, Counts counts, MaybeCounts offsets, std::size_t elements,
                     const std::string& array) {
  at.requireCount(counts.size(), at.ranks(), "counts");
  if (!offsets) {
    offsets.emplace(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), offsets->begin(), std::size_t{0});
  }
  at.requireCount(offsets->size(), at.ranks(), "offsets");
  for (std::size_t r = 0; r < counts.size(); ++r)
    if ((*offsets)[r] > elements || counts[r] > elements - (*offsets)[r])
      refuse(at.info.name, "block " + std::to_string(r) + ", " + std::to_string(counts[r]) +
                               " elements from element " + std::to_string((*offsets)[r]) +
                               ", ends after " + array + ", which has " + std::to_string(elements) +
                               " elements");
  return {std::move(counts), std::move(*offsets)};
}

/// This rank's count.
std::size_t own(const Prepared& at, const Counts& counts) {
  at.requireCount(counts.size(), at.ranks(), "counts");
  return counts[static_cast<std::size_t>(at.self.rank())];
}

/// Takes an output of blocks; None: a new array that they fill.
OwnedBlocks takeBlocks(Prepared& at, nb::handle out, Counts counts, MaybeCounts offsets) {
  if (out.is_none()) {
    if (offsets) refuse(at.info.name, "offsets need out");
    const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    at.takeSameType(newArray(nb::make_tuple(all), *at.info.type));
  } else {
    at.takeSameType(out);
  }
  return blocksOf(at, std::move(counts), std::move(offsets), at.held.output.count(), "out");
}

const Counts& needed(const Prepared& at, const MaybeCounts& counts) {
  if (!counts) refuse(at.info.name, "root needs counts");
  return *counts;
}

template <bool kLater>
nb::object reduceScatterv(const Rank& self, nb::handle a, Counts counts, nb::handle op,
                          nb::handle out, MaybeCounts offsets) {
  Prepared at(self, "reduce_scatterv");
  at.info.op = operatorOf(op, at.info.name);
  at.takeInput(a);
  const std::size_t count = own(at, counts);
  const OwnedBlocks blocks =
      blocksOf(at, std::move(counts), std::move(offsets), at.info.count, "a");
  at.takeOutput(out, count, [&] { return nb::make_tuple(count); });
  return go<kLater>(at, &C::reduceScatterv, &C::reduceScattervAsync, at.input(), blocks,
                    at.output(), *at.info.type, *at.info.op);
}
constexpr CallDoc kReduceScatterv{
    "reduce_scatterv",
    ", a: typing.Any, counts: collections.abc.Sequence[int], op: str | ReduceOp = 'sum', "
    "out: typing.Any = None, offsets: collections.abc.Sequence[int] | None = None",
    "typing.Any", R"(
Does what reduce_scatter() does with blocks of different sizes: rank r gets block r of the result.

counts   elements of each rank's block of a; the same on all ranks
out      array of counts[rank] elements; None: a new NumPy array
offsets  first element of each block in a; None: the blocks follow each other
Returns out.

>>> rondo.run(lambda comm: comm.reduce_scatterv(numpy.arange(3), [1, 2]), ranks=2)
[array([0]), array([2, 4])]
)"};

template <bool kLater>
nb::object scatterv(const Rank& self, nb::handle a, MaybeCounts counts, nb::handle out, int root,
                    MaybeCounts offsets) {
  Prepared at(self, "scatterv");
  at.setRoot(root);
  OwnedBlocks blocks;
  if (at.isRoot()) {
    at.takeInput(a);
    const std::size_t elements = std::exchange(at.info.count, own(at, needed(at, counts)));
    at.takeSameType(out);
    at.requireCount(at.held.output.count(), at.info.count, "out");
    blocks = blocksOf(at, std::move(*counts), std::move(offsets), elements, "a");
  } else {
    at.takeOutput(out);
  }
  return go<kLater>(at, &C::scatterv, &C::scattervAsync, at.input(), blocks, at.output(),
                    at.info.count, *at.info.type, root);
}
constexpr CallDoc kScatterv{
    "scatterv",
    ", a: typing.Any, counts: collections.abc.Sequence[int] | None, out: typing.Any, "
    "root: int = 0, offsets: collections.abc.Sequence[int] | None = None",
    "typing.Any", R"(
Does what scatter() does with blocks of different sizes: rank r's out gets block r of root's a.

a, counts, offsets  are used on root only; elsewhere they may be None
out                 array of as many elements as root's counts has for this rank
Returns out.

>>> def job(comm):
...     return comm.scatterv(numpy.arange(3), [1, 2], numpy.empty(comm.rank + 1, int))
>>> rondo.run(job, ranks=2)
[array([0]), array([1, 2])]
)"};

template <bool kLater>
nb::object gatherv(const Rank& self, nb::handle a, MaybeCounts counts, int root, nb::handle out,
                   MaybeCounts offsets) {
  Prepared at(self, "gatherv");
  at.setRoot(root);
  at.takeInput(a);
  OwnedBlocks blocks;
  if (at.isRoot()) {
    at.requireCount(at.info.count, own(at, needed(at, counts)), "a");
    blocks = takeBlocks(at, out, std::move(*counts), std::move(offsets));
  }
  return go<kLater>(at, &C::gatherv, &C::gathervAsync, at.input(), at.info.count, at.output(),
                    blocks, *at.info.type, root);
}
constexpr CallDoc kGatherv{
    "gatherv",
    ", a: typing.Any, counts: collections.abc.Sequence[int] | None = None, root: int = 0, "
    "out: typing.Any = None, offsets: collections.abc.Sequence[int] | None = None",
    "typing.Any", R"(
Does what gather() does with blocks of different sizes: block r of root's out gets rank r's a.

counts   on root: elements of each rank's a
out      on root: array of the blocks; None: a new NumPy array of sum(counts) elements
offsets  on root: first element of each block in out; None: the blocks follow each other
Returns out on root, None on other ranks.

>>> rondo.run(lambda comm: comm.gatherv(numpy.full(comm.rank + 1, comm.rank), [1, 2]), ranks=2)
[array([0, 1, 1]), None]
)"};

template <bool kLater>
nb::object allGatherv(const Rank& self, nb::handle a, Counts counts, nb::handle out,
                      MaybeCounts offsets) {
  Prepared at(self, "all_gatherv");
  at.takeInput(a);
  at.requireCount(at.info.count, own(at, counts), "a");
  const OwnedBlocks blocks = takeBlocks(at, out, std::move(counts), std::move(offsets));
  return go<kLater>(at, &C::allGatherv, &C::allGathervAsync, at.input(), at.info.count, at.output(),
                    blocks, *at.info.type);
}
constexpr CallDoc kAllGatherv{
    "all_gatherv",
    ", a: typing.Any, counts: collections.abc.Sequence[int], out: typing.Any = None, "
    "offsets: collections.abc.Sequence[int] | None = None",
    "typing.Any", R"(
Does what all_gather() does with blocks of different sizes: block r of out gets rank r's a.

counts   elements of each rank's a; the same on all ranks
out      array of the blocks; None: a new NumPy array of sum(counts) elements
offsets  first element of each block in out; None: the blocks follow each other
Returns out.

>>> rondo.run(lambda comm: comm.all_gatherv(numpy.full(comm.rank + 1, comm.rank), [1, 2]), 2)[0]
array([0, 1, 1])
)"};

template <bool kLater>
nb::object allToAllv(const Rank& self, nb::handle a, Counts counts, nb::handle out,
                     Counts out_counts, MaybeCounts offsets, MaybeCounts out_offsets) {
  Prepared at(self, "all_to_allv");
  at.takeInput(a);
  const OwnedBlocks from = blocksOf(at, std::move(counts), std::move(offsets), at.info.count, "a");
  const OwnedBlocks into = takeBlocks(at, out, std::move(out_counts), std::move(out_offsets));
  return go<kLater>(at, &C::allToAllv, &C::allToAllvAsync, at.input(), from, at.output(), into,
                    *at.info.type);
}
constexpr CallDoc kAllToAllv{
    "all_to_allv",
    ", a: typing.Any, counts: collections.abc.Sequence[int], out: typing.Any, "
    "out_counts: collections.abc.Sequence[int], "
    "offsets: collections.abc.Sequence[int] | None = None, "
    "out_offsets: collections.abc.Sequence[int] | None = None",
    "typing.Any", R"(
Does what all_to_all() does with blocks of different sizes: block s of rank r's out gets block r of
rank s's a.

counts, offsets          elements of the blocks of a, and where each begins
out_counts, out_offsets  the same of out; None as offsets: the blocks follow each other
out                      array of the blocks; None: a new NumPy array of sum(out_counts) elements
Returns out.

>>> def job(comm):
...     return comm.all_to_allv(numpy.full(3, comm.rank), [1, 2], None, [comm.rank + 1] * 2)
>>> rondo.run(job, ranks=2)
[array([0, 1]), array([0, 0, 1, 1])]
)"};

} // namespace

void addBlockCalls(nb::class_<Rank>& to) {
  const auto a = nb::arg("a").none();
  const nb::arg counts("counts");
  const auto no_counts = nb::arg("counts") = nb::none();
  const auto no_out = nb::arg("out") = nb::none();
  const auto packed = nb::arg("offsets") = nb::none();
  const auto sum = nb::arg("op") = "sum";
  const auto first = nb::arg("root") = 0;
  addCall(to, kReduceScatterv, reduceScatterv<false>, reduceScatterv<true>, a, counts, sum, no_out,
          packed);
  addCall(to, kScatterv, scatterv<false>, scatterv<true>, a, nb::arg("counts").none(),
          nb::arg("out").none(), first, packed);
  addCall(to, kGatherv, gatherv<false>, gatherv<true>, a, no_counts, first, no_out, packed);
  addCall(to, kAllGatherv, allGatherv<false>, allGatherv<true>, a, counts, no_out, packed);
  addCall(to, kAllToAllv, allToAllv<false>, allToAllv<true>, a, counts, nb::arg("out").none(),
          nb::arg("out_counts"), packed, nb::arg("out_offsets") = nb::none());
}

} // namespace rondo::compat::python
