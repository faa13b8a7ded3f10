// Tests the forms of the collectives for arrays: results, deduced types and lengths.
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using Ints = std::vector<std::int64_t>;

/// Runs the body on 3 ranks; it returns what is wrong.
void onThree(const std::function<std::string(Communicator&, std::int64_t)>& body) {
  auto ranks = Communicator::createAll(3, plainOptions("inproc"));
  REQUIRE(firstComplaint(
              onRanks(ranks, [&](Communicator& comm) { return body(comm, comm.rank()); })) == "");
}

std::string wrong(bool right, const char* what) { return right ? "" : what; }

template <class T>
concept Reducible = requires(Communicator& comm, T& data) {
  comm.allReduce(data, ReduceOp::sum);
};
static_assert(Reducible<std::vector<float>> && Reducible<std::array<char, 3>> &&
              Reducible<double[2]> && Reducible<std::span<unsigned long>>);
static_assert(!Reducible<std::vector<bool>> && !Reducible<const std::vector<float>> &&
              !Reducible<std::span<const int>> && !Reducible<std::array<bool, 2>>);
/// A temporary's memory may be gone before an asynchronous call has used it.
template <class T>
concept Sendable = requires(Communicator& comm, T (&make)()) {
  comm.sendAsync(make(), 1);
};
static_assert(Sendable<std::span<const float>> && Sendable<std::vector<float>&> &&
              !Sendable<std::vector<float>> && !Sendable<std::array<int, 2>>);
/// An allToAll in place does not exist.
template <class T>
concept SwappedInPlace = requires(Communicator& comm, T& data) {
  comm.allToAll(data);
};
static_assert(!SwappedInPlace<std::vector<float>>);
static_assert(!Elements<std::vector<__int128>>);
static_assert(ElementTraits<unsigned long long>::kType == DataType::uint64 &&
              ElementTraits<short>::kType == DataType::int16 &&
              ElementTraits<std::uint8_t>::kType == DataType::uint8 &&
              ElementTraits<int>::kType == DataType::int32 &&
              ElementTraits<float>::kType == DataType::float32);

} // namespace

// Each case proves that the typed form with two arrays, the one in place and the Async forms do
// what the form with pointers documents.

TEST_CASE("typed: allReduce") {
  onThree([](Communicator& comm, std::int64_t r) {
    const Ints in(5, r + 1);
    Ints out(5), data = in, later = in;
    comm.allReduce(in, out, ReduceOp::sum);
    comm.allReduce(std::span(data), ReduceOp::max);
    comm.allReduceAsync(later, ReduceOp::sum).wait();
    return wrong(out == Ints(5, 6) && data == Ints(5, 3) && later == out, "allReduce");
  });
}

TEST_CASE("typed: reduce") {
  onThree([](Communicator& comm, std::int64_t r) {
    const Ints in(5, r + 1);
    Ints out(r == 1 ? 5 : 0), data = in;
    comm.reduce(in, out, ReduceOp::sum, 1);
    comm.reduceAsync(data, ReduceOp::sum, 2).wait();
    return wrong(out == Ints(r == 1 ? 5 : 0, 6) && data == Ints(5, r == 2 ? 6 : r + 1), "reduce");
  });
}

TEST_CASE("typed: reduceScatter") {
  onThree([](Communicator& comm, std::int64_t r) {
    Ints in(6);
    std::iota(in.begin(), in.end(), r);
    Ints out(2), data = in;
    comm.reduceScatter(in, out, ReduceOp::sum);
    comm.reduceScatterAsync(data, ReduceOp::sum).wait();
    const Ints wanted{3 + 6 * r, 6 + 6 * r};
    const auto own = std::span(data).subspan(static_cast<std::size_t>(2 * r), 2);
    return wrong(out == wanted && Ints(own.begin(), own.end()) == wanted, "reduceScatter");
  });
}

TEST_CASE("typed: scan and exclusiveScan") {
  onThree([](Communicator& comm, std::int64_t r) {
    const Ints in(4, r + 1);
    Ints out(4), data = in, before(r == 0 ? 0 : 4), exclusive = in;
    comm.scan(in, out, ReduceOp::sum);
    comm.scanAsync(data, ReduceOp::sum).wait();
    comm.exclusiveScan(in, before, ReduceOp::sum);
    comm.exclusiveScanAsync(exclusive, ReduceOp::sum).wait();
    const std::int64_t sum = (r + 1) * (r + 2) / 2;
    return wrong(out == Ints(4, sum) && data == out &&
                     before == Ints(r == 0 ? 0 : 4, sum - r - 1) &&
                     exclusive == Ints(4, r == 0 ? 1 : sum - r - 1),
                 "scan");
  });
}

TEST_CASE("typed: broadcast, scatter and gather") {
  onThree([](Communicator& comm, std::int64_t r) {
    const Ints in(r == 1 ? 4 : 0, 9);
    Ints out(4), data(4, r);
    comm.broadcast(in, out, 1);
    comm.broadcastAsync(data, 2).wait();
    if (out != Ints(4, 9) || data != Ints(4, 2)) return "broadcast";

    const Ints parts = r == 1 ? Ints{1, 2, 3, 4, 5, 6} : Ints{};
    Ints part(2), own = r == 1 ? parts : Ints(2);
    comm.scatter(parts, part, 1);
    comm.scatterAsync(own, 1).wait();
    const Ints wanted{2 * r + 1, 2 * r + 2};
    if (part != wanted || own != (r == 1 ? parts : wanted)) return "scatter";

    Ints all(r == 1 ? 6 : 0), place = r == 1 ? Ints{0, 0, 3, 4, 0, 0} : part;
    comm.gather(part, all, 1);
    comm.gatherAsync(place, 1).wait();
    return all == parts && place == (r == 1 ? parts : part) ? "" : "gather";
  });
}

TEST_CASE("typed: allGather and allToAll") {
  onThree([](Communicator& comm, std::int64_t r) {
    const Ints in(2, r);
    Ints out(6), data(6, r), swapped(3), mine{10 * r, 10 * r + 1, 10 * r + 2};
    comm.allGather(in, out);
    comm.allGatherAsync(data).wait();
    comm.allToAll(mine, swapped);
    comm.allToAllAsync(swapped, mine).wait();
    return wrong(out == Ints{0, 0, 1, 1, 2, 2} && data == out &&
                     swapped == Ints{r, 10 + r, 20 + r} &&
                     mine == Ints{10 * r, 10 * r + 1, 10 * r + 2},
                 "allGather or allToAll");
  });
}

TEST_CASE("typed: send and recv") {
  onThree([](Communicator& comm, std::int64_t r) {
    const std::array<float, 2> out{static_cast<float>(r), 0.5F};
    std::array<float, 2> in{};
    Work sent = comm.sendAsync(out, (comm.rank() + 1) % 3);
    comm.recv(in, (comm.rank() + 2) % 3);
    sent.wait();
    if (in[0] != static_cast<float>((r + 2) % 3) || in[1] != 0.5F) return "recv";
    Work later = comm.recvAsync(in, (comm.rank() + 2) % 3);
    comm.send(out, (comm.rank() + 1) % 3);
    later.wait();
    return in[0] == static_cast<float>((r + 2) % 3) ? "" : "recvAsync";
  });
}

TEST_CASE("typed: lengths that do not fit are refused before anything is sent") {
  auto ranks = Communicator::createAll(3, plainOptions("inproc"));
  Communicator& comm = ranks[0];
  Ints five(5), six(6), seven(7);
  const auto refused = [](const std::function<void()>& call,
                          std::initializer_list<const char*> words) {
    CHECK(says(caught(call), ErrorCode::invalid_argument, words));
  };
  refused([&] { comm.allReduce(five, six, ReduceOp::sum); }, {"AllReduce", "5", "6"});
  refused([&] { comm.allGather(five, six); }, {"AllGather", "5", "6", "3 times"});
  refused([&] { comm.allGather(seven); }, {"AllGather", "7", "3"});
  refused([&] { comm.reduceScatter(seven, five, ReduceOp::sum); }, {"ReduceScatter", "7", "5"});
  refused([&] { comm.allToAll(seven, seven); }, {"AllToAll", "7", "a multiple of 3"});
  refused([&] { comm.scatter(seven, 0); }, {"Scatter", "7", "3"});
  refused([&] { comm.gather(five, seven, 0); }, {"Gather", "5", "7"});
  refused([&] { comm.reduce(five, six, ReduceOp::sum, 0); }, {"Reduce", "5", "6"});
  refused([&] { comm.scanAsync(five, six, ReduceOp::sum).wait(); }, {"Scan", "5", "6"});
  refused([&] { comm.broadcast(five, six, 0); }, {"Broadcast", "5", "6"});
  CHECK_FALSE(comm.failure());
}

} // namespace rondo::test
