// Failures of Send and Recv on devices.
#include <chrono>
#include <functional>
#include <optional>

#include "device/device_ranks.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLarge = 2'000'000; ///< more than a channel holds

/// What each rank's body throws. The streams are idle when it returns.
std::vector<Caught> eachRank(DeviceRanks& world, const std::function<void(Communicator&)>& body) {
  std::vector<Caught> errors(world.all.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < errors.size(); ++r)
      threads.emplace_back([&, r] { errors[r] = caught([&] { body(world.all[r]); }); });
  }
  for (Communicator& comm : world.all) world.stream(comm).synchronize();
  return errors;
}

Options impatient() {
  Options options = onDevice();
  options.timeout = 2s;
  return options;
}

} // namespace

// Proves: if sender and receiver differ in count or type, both ranks get an error that names both
// calls, alone and in a group.
TEST_CASE("device messages: different counts and types are a mismatch on every rank") {
  for (std::size_t count : {std::size_t{100}, std::size_t{100'000}}) // one count for each protocol
    for (bool grouped : {false, true}) {
      const HostDevices host;
      std::vector<float> data(2 * count), other(2 * count);
      DeviceRanks counts(2, onDevice()), types(2, onDevice());
      const auto errors = eachRank(counts, [&](Communicator& comm) {
        std::optional<Group> group;
        if (grouped) group.emplace();
        if (comm.rank() == 0) comm.send(data.data(), count, DataType::float32, 1);
        else comm.recv(other.data(), count + 1, DataType::float32, 0);
        if (grouped) group->end();
        comm.barrier(); // a send completes when its message is in the channel
      });
      for (const Caught& error : errors)
        CHECK(says(error, ErrorCode::mismatch,
                   {count == 100 ? "(100 float)" : "(100000 float)",
                    count == 100 ? "(101 float)" : "(100001 float)"}));
      for (const Caught& error : eachRank(types, [&](Communicator& comm) {
             if (comm.rank() == 0) comm.send(data.data(), count, DataType::float32, 1);
             else comm.recv(other.data(), count, DataType::int32, 0);
             comm.barrier();
           }))
        CHECK(says(error, ErrorCode::mismatch, {"float)", "int32)"}));
    }
}

// Proves: if one of several messages in a launch is missing, every rank names it.
TEST_CASE("device messages: a missing sender is a timeout that names it") {
  for (std::size_t count : {std::size_t{100}, kLarge}) {
    const HostDevices host;
    std::vector<std::vector<std::uint8_t>> from(3, std::vector<std::uint8_t>(count));
    DeviceRanks world(3, impatient());
    const auto errors = eachRank(world, [&](Communicator& comm) {
      Group group;
      if (comm.rank() == 0)
        for (int peer : {1, 2})
          comm.recv(from[static_cast<std::size_t>(peer)].data(), count, DataType::uint8, peer);
      if (comm.rank() == 1) comm.send(from[0].data(), count, DataType::uint8, 0);
      group.end();
    });
    CHECK(says(errors[0], ErrorCode::timeout,
               {"Send/Recv #1", "waiting to receive from rank 2", "timed out"}));
    CHECK(errors[0].culprit == 2);
    CHECK(says(caught([&] { world.all[1].barrier(); }), ErrorCode::timeout, {"rank 2"}));
  }
}

// Proves: a large message that is never received ends its sender at the deadline, with the
// receiver's rank. Messages of the same shape that were received do not confuse it.
TEST_CASE("device messages: a missing receiver is a timeout that names it") {
  const HostDevices host;
  std::vector<std::uint8_t> data(kLarge), taken(kLarge);
  Options options = impatient();
  options.channel_bytes = 256 << 10; // so that the message does not fit all slots
  DeviceRanks world(3, options);
  const auto errors = eachRank(world, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      Work first = comm.sendAsync(data.data(), kLarge, DataType::uint8, 1);
      comm.send(data.data(), kLarge, DataType::uint8, 2);
      first.wait();
    }
    if (comm.rank() == 1) comm.recv(taken.data(), kLarge, DataType::uint8, 0);
  });
  CHECK(says(errors[0], ErrorCode::timeout, {"Send/Recv #1", "waiting until rank 2 receives"}));
  CHECK(!errors[1].threw);
}

// Proves: an abort ends a launch of messages at once, long before its deadline.
TEST_CASE("device messages: an abort ends a waiting launch") {
  const HostDevices host;
  std::vector<std::uint8_t> out(kLarge), in(kLarge);
  Options patient = onDevice();
  patient.timeout = std::chrono::hours(1);
  DeviceRanks world(2, patient);
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = eachRank(world, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(50ms);
      return comm.abort("enough");
    }
    Group group;
    comm.send(out.data(), kLarge, DataType::uint8, 1);
    comm.recv(in.data(), kLarge, DataType::uint8, 1);
    group.end();
  });
  CHECK(says(errors[0], ErrorCode::aborted, {"enough"}));
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
}

// Proves: a launch that the device refuses is an error of all its messages, and of the peers'
// messages. A wrong call in a group fails alone, and the other calls run.
TEST_CASE("device messages: refused launches fail all their messages, refused calls fail alone") {
  HostDevices host;
  std::vector<std::int32_t> a(100), b(100), hidden(100);
  {
    DeviceRanks world(2, onDevice());
    host.failNextLaunch();
    Communicator& comm = world.all[0];
    Work sent, received;
    const Caught refused = caught([&] {
      Group group;
      sent = comm.sendAsync(a.data(), 100, DataType::int32, 1);
      received = comm.recvAsync(b.data(), 100, DataType::int32, 1);
      group.end();
    });
    CHECK(says(refused, ErrorCode::system, {"Send/Recv #1", "not launched"}));
    for (Work* work : {&sent, &received})
      CHECK(says(caught([&] { work->wait(); }), ErrorCode::system, {"not launched"}));
    CHECK(says(caught([&] { world.all[1].recv(b.data(), 100, DataType::int32, 0); }),
               ErrorCode::system, {"not launched"}));
  }
  host.hide(hidden.data());
  DeviceRanks world(2, onDevice());
  std::fill(a.begin(), a.end(), 7);
  const auto errors = eachRank(world, [&](Communicator& comm) {
    Group group;
    if (comm.rank() == 0) {
      comm.send(hidden.data(), 100, DataType::int32, 1);
      comm.send(a.data(), 100, DataType::int32, 1);
    } else {
      comm.recv(b.data(), 100, DataType::int32, 0);
    }
    group.end();
  });
  CHECK(says(errors[0], ErrorCode::invalid_argument, {"not memory that the device"}));
  CHECK(!errors[1].threw);
  CHECK(b == a);
}

// Proves: the next call with the same peer reports a failed replay.
TEST_CASE("device messages: a failed replay is an error of the next call") {
  const HostDevices host;
  std::vector<std::int32_t> data(100);
  Options options = onDevice();
  options.timeout = 200ms;
  DeviceRanks world(2, options);
  Communicator& comm = world.all[0];
  HostStream& stream = world.stream(comm);
  stream.beginCapture();
  comm.recv(data.data(), 100, DataType::int32, 1);
  const auto graph = stream.endCapture();
  stream.replay(graph); // rank 1 replays nothing
  stream.synchronize();
  CHECK(says(caught([&] { comm.recv(data.data(), 100, DataType::int32, 1); }), ErrorCode::timeout,
             {"rank 1"}));
}

} // namespace rondo::test
