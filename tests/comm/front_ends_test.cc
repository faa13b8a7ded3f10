// Tests what front ends need in addition to calls: handles that can be polled, failures that can be
// queried, groups that can be dropped, and communicators of the surviving ranks.
#include <pthread.h>

#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

std::string sumIs(Communicator& comm, int value) {
  std::int32_t one = 1, sum = 0;
  comm.allReduce(&one, &sum, 1, DataType::int32, ReduceOp::sum);
  return sum == value ? "" : "sum is " + std::to_string(sum);
}

template <class Future>
auto madeWithin(Future& future) {
  REQUIRE(future.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  return future.get();
}

/// While it exists, no thread can start: none has memory for its stack.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_attr_init(&usual_);
    ::pthread_getattr_default_np(&usual_);
    pthread_attr_t huge{};
    ::pthread_attr_init(&huge);
    ::pthread_attr_setstacksize(&huge, std::size_t{1} << 46);
    ::pthread_setattr_default_np(&huge);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&usual_);
    ::pthread_attr_destroy(&usual_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t usual_{};
};

} // namespace

// Proves: one thread makes all ranks, by an id and by splits, without waiting for any of them.
TEST_CASE("one thread makes several ranks at once, and splits them in the order of its calls") {
  const int size = 3;
  const Options options = plainOptions();
  const UniqueId id = UniqueId::create(options);
  std::vector<std::future<Communicator>> making;
  for (int rank = 0; rank < size; ++rank)
    making.push_back(Communicator::createAsync(Rendezvous::uniqueId(id, rank, size), options));
  std::vector<Communicator> all;
  for (auto& one : making) all.push_back(madeWithin(one));

  std::vector<std::future<std::optional<Communicator>>> reversed, parity;
  for (int rank = 0; rank < size; ++rank) {
    reversed.push_back(all[static_cast<std::size_t>(rank)].splitAsync(0, -rank));
    parity.push_back(
        all[static_cast<std::size_t>(rank)].splitAsync(rank == 1 ? Communicator::kNoColor : 0, 0));
  }
  std::vector<Communicator> whole, part;
  for (auto& one : reversed) whole.push_back(std::move(*madeWithin(one)));
  for (auto& one : parity)
    if (auto made = madeWithin(one)) part.push_back(std::move(*made));
  REQUIRE(part.size() == 2);
  CHECK(whole[0].rank() == 2);
  CHECK(firstComplaint(onRanks(whole, [](Communicator& c) { return sumIs(c, 3); })) == "");
  CHECK(firstComplaint(onRanks(part, [](Communicator& c) { return sumIs(c, 2); })) == "");
}

TEST_CASE("get() throws the error of createAsync()") {
  Options options = plainOptions();
  options.init_timeout = std::chrono::milliseconds(50);
  auto alone = Communicator::createAsync(Rendezvous::inProcess(2).as(1), options);
  CHECK(says(caught([&] { alone.get(); }), ErrorCode::init_failed, {"rank 0"}));
}

// Proves: the error is thrown where the thread was to start, and neither the other ranks nor later
// splits of this one wait for it.
TEST_CASE("a thread that cannot start is an error on every rank") {
  Options options = plainOptions();
  options.init_timeout = std::chrono::seconds(10);
  auto ranks = Communicator::createAll(2, options);
  {
    const NoThreads none;
    CHECK(says(caught([] { Communicator::createAll(2, plainOptions()); }), ErrorCode::system,
               {"cannot start a thread"}));
    CHECK(says(caught([&] { ranks[0].splitAsync(0, 0); }), ErrorCode::system,
               {"cannot start a thread"}));
  }
  for (Communicator& one : ranks)
    CHECK(says(caught([&] { one.split(0, 0); }), ErrorCode::aborted,
               {"rank 0", "cannot start a thread"}));
}

// Proves: a failure is known on every rank, with its culprit, without another call.
TEST_CASE("a communicator's failure can be queried without a call") {
  auto ranks = Communicator::createAll(3, plainOptions());
  for (const Communicator& one : ranks) CHECK_FALSE(one.failure());
  ranks[1].abort("enough");
  for (const Communicator& one : ranks) {
    const auto failure = one.failure();
    REQUIRE(failure);
    CHECK(failure->code() == ErrorCode::aborted);
    CHECK(failure->culprit() == 1);
    CHECK(std::string(failure->what()).find("enough") != std::string::npos);
  }
}

// Proves: a dropped group makes no call, and the communicators can still be used.
TEST_CASE("groups that are dropped make none of their calls") {
  auto ranks = Communicator::createAll(2, plainOptions());
  std::int32_t one = 1, sum = -1;
  Work work;
  {
    Group group;
    Group inner;
    work = ranks[0].allReduceAsync(&one, &sum, 1, DataType::int32, ReduceOp::sum);
    inner.drop();
    CHECK_FALSE(work.test());
    CHECK(group.predict().count() > 0);
    group.drop();
    CHECK(says(caught([&] { group.end(); }), ErrorCode::invalid_argument, {"Group"}));
  }
  CHECK(work.test());
  CHECK(says(caught([&] { work.wait(); }), ErrorCode::aborted, {"AllReduce", "dropped"}));
  CHECK(sum == -1);
  CHECK(firstComplaint(onRanks(ranks, [](Communicator& c) { return sumIs(c, 2); })) == "");
}

// Proves: predictions grow with the bytes, and add up in a communicator.
TEST_CASE("groups predict how long their calls take") {
  auto ranks = Communicator::createAll(2, plainOptions());
  std::vector<float> a(1 << 20), b(1 << 20);
  const auto predicted = [&](std::size_t count, int calls) {
    Group group;
    for (int i = 0; i < calls; ++i)
      ranks[0].allReduce(a.data(), b.data(), count, DataType::float32, ReduceOp::sum);
    ranks[1].send(a.data(), 1, DataType::float32, 0);
    const auto time = group.predict();
    group.drop();
    return time;
  };
  CHECK(predicted(1 << 20, 1) > 10 * predicted(16, 1));
  CHECK(predicted(1 << 20, 3) >= 3 * predicted(1 << 20, 1) - std::chrono::nanoseconds(3));
  CHECK(predicted(0, 0).count() > 0);
  const auto exchanged = [&](std::size_t count) {
    const std::size_t counts[] = {count, count}, offsets[] = {0, count};
    Group group;
    ranks[0].allToAllv(a.data(), {counts, offsets}, b.data(), {counts, offsets}, DataType::float32);
    const auto time = group.predict();
    group.drop();
    return time;
  };
  CHECK(exchanged(1 << 19) > 10 * exchanged(16));
}

TEST_CASE("memory for peers needs no communicator") {
  Buffer buffer = Buffer::allocate(100);
  REQUIRE(buffer.data());
  CHECK(buffer.size() == 100);
  CHECK(static_cast<const char*>(buffer.data())[99] == 0);
  buffer.release();
  CHECK(buffer.data() == nullptr);
}

// Proves: the staying ranks go on in the same order, whether or not the old communicator failed,
// and as often as they shrink. The ranks left out take no part.
TEST_CASE("communicators shrink to the staying ranks") {
  auto ranks = Communicator::createAll(4, plainOptions());
  const int bad[] = {4};
  CHECK(says(caught([&] { ranks[0].shrink(bad); }), ErrorCode::invalid_argument, {"rank 4"}));
  const int own[] = {0};
  CHECK(says(caught([&] { ranks[0].shrink(own); }), ErrorCode::invalid_argument, {"rank 0"}));
  const int left_out[] = {1};
  for (const bool failed : {false, true}) {
    if (failed) ranks[1].abort("rank 1 has had enough");
    std::vector<std::future<Communicator>> making;
    for (const std::size_t rank : {0, 2, 3}) making.push_back(ranks[rank].shrinkAsync(left_out));
    std::vector<Communicator> rest;
    for (auto& one : making) rest.push_back(madeWithin(one));
    for (int rank = 0; rank < 3; ++rank) CHECK(rest[static_cast<std::size_t>(rank)].rank() == rank);
    CHECK(firstComplaint(onRanks(rest, [](Communicator& c) { return sumIs(c, 3); })) == "");
  }
}

// Proves: threads that shrink one communicator at the same time each get one of all ranks.
TEST_CASE("two threads of each rank shrink a communicator at the same time") {
  for (const bool sockets : {false, true}) {
    INFO((sockets ? "over sockets" : "in one process"));
    auto ranks = sockets ? ranksOverSockets(3, plainOptions("tcp"))
                         : Communicator::createAll(3, plainOptions());
    for (int round = 0; round < 5; ++round) {
      std::vector<std::future<Communicator>> making;
      for (int i = 0; i < 2; ++i)
        for (Communicator& rank : ranks) making.push_back(rank.shrinkAsync());
      std::vector<Communicator> made;
      for (auto& one : making) made.push_back(madeWithin(one));
      for (const Communicator& one : made) REQUIRE(one.size() == 3);
    }
  }
}

TEST_CASE("ranks that shrink differently end at the deadline") {
  Options options = plainOptions();
  options.init_timeout = std::chrono::seconds(2); // it limits createAll() too
  auto ranks = Communicator::createAll(3, options);
  const int one[] = {1}, two[] = {2};
  auto first = ranks[0].shrinkAsync(one);
  CHECK(caught([&] { ranks[1].shrink(two); }).code == ErrorCode::timeout);
  CHECK(caught([&] { first.get(); }).code == ErrorCode::timeout);
}

} // namespace rondo::test
