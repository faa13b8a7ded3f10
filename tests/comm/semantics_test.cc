// Tests promises besides results: order, asynchrony, groups, splitting, determinism.
#include <cstring>
#include <numeric>
#include <thread>

#include "plan/check.h"
#include "plan/registry.h"
#include "support/collective_case.h"
#include "support/ranks.h"
#include "support/test.h"
#include "transports/registry.h"

namespace rondo::test {
namespace {

using Floats = std::vector<float>;

std::string expect(bool holds, const std::string& what) { return holds ? "" : what; }

} // namespace

TEST_CASE("calls in flight finish in any order of waiting, with the right results") {
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (int size : kRankCounts) {
      auto ranks = Communicator::createAll(size, plainOptions(transport));
      const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
        constexpr int kCalls = 12;
        std::vector<Floats> in, out;
        std::vector<Work> works;
        for (int i = 0; i < kCalls; ++i) {
          in.emplace_back(static_cast<std::size_t>(1 + 5000 * i), static_cast<float>(i + 1));
          out.emplace_back(in.back().size());
        }
        for (std::size_t i = 0; i < kCalls; ++i)
          works.push_back(comm.allReduceAsync(in[i].data(), out[i].data(), in[i].size(),
                                              DataType::float32, ReduceOp::sum));
        for (std::size_t i = kCalls; i-- > 0;) {
          works[i].wait();
          works[i].wait(); // a second time: it is still done
          for (float v : out[i])
            if (v != static_cast<float>((i + 1) * static_cast<std::size_t>(size)))
              return "call " + std::to_string(i) + " gave " + std::to_string(v);
        }
        return {};
      }));
      INFO(transport << ", " << size << " ranks");
      REQUIRE(wrong == "");
    }
}

TEST_CASE("an asynchronous call is finished by the library while no thread waits") {
  auto ranks = Communicator::createAll(3, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            Floats data(200'000, 1.0f);
            Work work = comm.allReduceAsync(data.data(), data.data(), data.size(),
                                            DataType::float32, ReduceOp::sum);
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
            // The memory is read only after test() returned true, which alone orders the accesses.
            while (std::chrono::steady_clock::now() < end) {
              std::this_thread::sleep_for(std::chrono::milliseconds(5));
              if (work.test()) break;
            }
            work.wait();
            return expect(data.back() == 3.0f, "wrong sum");
          })) == "");
}

TEST_CASE("large messages sent both ways at once do not block each other") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    auto ranks = Communicator::createAll(2, plainOptions(transport));
    const auto wrong = firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
      const int peer = 1 - comm.rank();
      std::vector<std::int64_t> out(2'000'000), in(out.size());
      std::iota(out.begin(), out.end(), comm.rank());
      Work sent = comm.sendAsync(out.data(), out.size(), DataType::int64, peer);
      Work received = comm.recvAsync(in.data(), in.size(), DataType::int64, peer);
      sent.wait();
      received.wait();
      return expect(in[0] == peer && in.back() == peer + 1'999'999, "wrong data");
    }));
    INFO(transport);
    REQUIRE(wrong == "");
  }
}

TEST_CASE(
    "messages between two ranks arrive in the order of the calls, whatever else is going on") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    auto ranks = Communicator::createAll(3, plainOptions(transport));
    const auto wrong = firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
      constexpr int kMessages = 300;
      std::vector<std::int32_t> sent(kMessages), got(kMessages), sum(1);
      std::iota(sent.begin(), sent.end(), 1000 * comm.rank());
      const int right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
      std::vector<Work> works;
      for (std::size_t i = 0; i < kMessages; ++i) {
        works.push_back(comm.sendAsync(&sent[i], 1, DataType::int32, right));
        works.push_back(comm.recvAsync(&got[i], 1, DataType::int32, left));
        if (i % 50 == 0) comm.allReduce(&sent[i], sum.data(), 1, DataType::int32, ReduceOp::sum);
      }
      for (Work& work : works) work.wait();
      for (int i = 0; i < kMessages; ++i)
        if (got[static_cast<std::size_t>(i)] != 1000 * left + i)
          return "message " + std::to_string(i) + " is out of order";
      return {};
    }));
    INFO(transport);
    REQUIRE(wrong == "");
  }
}

TEST_CASE("a rank can send to itself when one side is asynchronous") {
  auto ranks = Communicator::createAll(2, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            Floats in(1'000'000, 4.0f), out(in.size());
            Work sent = comm.sendAsync(in.data(), in.size(), DataType::float32, comm.rank());
            comm.recv(out.data(), out.size(), DataType::float32, comm.rank());
            sent.wait();
            return expect(out == in, "wrong data");
          })) == "");
}

TEST_CASE("one thread drives all ranks of a communicator with a group") {
  for (int size : kRankCounts) {
    auto ranks = Communicator::createAll(size, plainOptions());
    std::vector<Floats> in, out;
    for (int r = 0; r < size; ++r) {
      in.emplace_back(70'001, static_cast<float>(r));
      out.emplace_back(70'001);
    }
    {
      Group outer;
      Group inner; // groups nest; the outermost counts
      for (std::size_t r = 0; r < in.size(); ++r)
        ranks[r].allReduce(in[r].data(), out[r].data(), in[r].size(), DataType::float32,
                           ReduceOp::sum);
      inner.end();
      REQUIRE(out[0][0] == 0.0f); // nothing has started
      outer.end();
    }
    const float sum = static_cast<float>(size * (size - 1) / 2);
    for (const Floats& result : out) REQUIRE(result == Floats(70'001, sum));
  }
}

TEST_CASE("a work taken inside a group is done when the group is, and test() is false before") {
  auto ranks = Communicator::createAll(1, plainOptions());
  float in = 2, out = 0;
  Group group;
  Work work = ranks[0].allReduceAsync(&in, &out, 1, DataType::float32, ReduceOp::sum);
  REQUIRE_FALSE(work.test());
  REQUIRE_THROWS_AS(work.wait(), Error);
  Work all = group.start();
  all.wait();
  REQUIRE(work.test());
  REQUIRE(out == 2);
  REQUIRE_THROWS_AS(group.start(), Error);
}

TEST_CASE("split makes independent communicators, ordered by key") {
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (int size : {2, 3, 5, 8}) {
      auto ranks = Communicator::createAll(size, plainOptions(transport));
      const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
        const int rank = comm.rank();
        const bool left_out = size > 2 && rank == size - 1;
        auto part = comm.split(left_out ? Communicator::kNoColor : rank % 2, -rank);
        if (left_out) return expect(!part, "a communicator for no color");
        const int members = size > 2 ? size - 1 : size;
        const int expected_size = (members + 1 - rank % 2) / 2;
        if (part->size() != expected_size) return "wrong size";
        if (part->rank() != expected_size - 1 - rank / 2) return "not ordered by key";
        std::int32_t value = rank, sum = 0, all = 0;
        part->allReduce(&value, &sum, 1, DataType::int32, ReduceOp::sum);
        std::int32_t expected = 0;
        for (int r = rank % 2; r < members; r += 2) expected += r;
        if (sum != expected) return "sum over the part is " + std::to_string(sum);
        auto again = part->split(0, part->rank());
        again->allReduce(&value, &all, 1, DataType::int32, ReduceOp::max);
        return expect(all >= value, "a split of a split");
      }));
      INFO(transport << ", " << size << " ranks");
      REQUIRE(wrong == "");
    }
}

TEST_CASE("several communicators are used at once, in any order on each rank") {
  auto first = Communicator::createAll(3, plainOptions());
  auto second = Communicator::createAll(3, plainOptions("tcp"));
  REQUIRE(firstComplaint(onRanks(first, [&](Communicator& a) -> std::string {
            Communicator& b = second[static_cast<std::size_t>(a.rank())];
            Floats x(50'000, 1.0f), y(60'000, 2.0f);
            Work one, two;
            const auto run_a = [&] {
              one =
                  a.allReduceAsync(x.data(), x.data(), x.size(), DataType::float32, ReduceOp::sum);
            };
            const auto run_b = [&] {
              two =
                  b.allReduceAsync(y.data(), y.data(), y.size(), DataType::float32, ReduceOp::sum);
            };
            if (a.rank() == 1) run_b(), run_a();
            else run_a(), run_b();
            if (a.rank() == 2) two.wait(), one.wait();
            else one.wait(), two.wait();
            return expect(x.back() == 3.0f && y.back() == 6.0f, "wrong sums");
          })) == "");
}

TEST_CASE("deterministic results are the same bits for every algorithm, transport and slot size") {
  // Sums that depend on the order. The reference is the sum in rank order.
  for (int size : kWholeGrid ? std::vector<int>{2, 3, 5, 8} : std::vector<int>{2, 3})
    for (DataType type : {DataType::float32, DataType::bfloat16, DataType::float16}) {
      constexpr std::size_t kCount = 5003;
      std::vector<std::vector<std::byte>> results;
      for (const char* transport : {"inproc", "shm", "tcp"})
        for (const char* algorithm : {"", "oneshot", "direct", "parameter_server"})
          for (std::size_t channel : {std::size_t{0}, std::size_t{8192}}) {
            Options options = plainOptions(transport, algorithm);
            options.deterministic = true;
            options.channel_bytes = channel;
            auto ranks = Communicator::createAll(size, options);
            std::vector<std::vector<std::byte>> out(ranks.size());
            const auto wrong =
                firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
                  std::vector<float> source(kCount);
                  for (std::size_t i = 0; i < kCount; ++i)
                    source[i] = 1.0f / static_cast<float>(
                                           3 + i + 977 * static_cast<std::size_t>(comm.rank()));
                  std::vector<std::byte> in(kCount * sizeOf(type));
                  for (std::size_t i = 0; i < kCount; ++i) {
                    std::uint32_t bits;
                    std::memcpy(&bits, &source[i], 4);
                    if (type == DataType::float32) std::memcpy(in.data() + 4 * i, &bits, 4);
                    if (type == DataType::bfloat16) {
                      const auto upper = static_cast<std::uint16_t>(bits >> 16);
                      std::memcpy(in.data() + 2 * i, &upper, 2);
                    }
                    if (type == DataType::float16) { // any finite code will do
                      const auto code = static_cast<std::uint16_t>((bits >> 9) & 0x3bff);
                      std::memcpy(in.data() + 2 * i, &code, 2);
                    }
                  }
                  auto& mine = out[static_cast<std::size_t>(comm.rank())];
                  mine.resize(in.size());
                  comm.allReduce(in.data(), mine.data(), kCount, type, ReduceOp::avg);
                  return {};
                }));
            REQUIRE(wrong == "");
            for (auto& one : out) results.push_back(std::move(one));
          }
      INFO(size << " ranks, " << name(type));
      for (const auto& one : results) REQUIRE(one == results.front());
    }
}

TEST_CASE("deterministic mode refuses an algorithm that sums in another order") {
  Options options = plainOptions("", "ring");
  options.deterministic = true;
  auto ranks = Communicator::createAll(3, options);
  for (auto& complaint : onRanks(ranks, [](Communicator& comm) -> std::string {
         float x = 1;
         comm.allReduce(&x, &x, 1, DataType::float32, ReduceOp::sum);
         return {};
       }))
    REQUIRE(complaint.find("rank order") != std::string::npos);
}

TEST_CASE("rank 0's algorithm is used by all ranks, even if their options differ") {
  const Rendezvous meet = Rendezvous::inProcess(3);
  std::vector<std::string> used(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      auto comm = Communicator::create(meet.as(r), plainOptions("", r == 0 ? "ring" : "oneshot"));
      std::int32_t in = r, out = -1;
      comm.allReduce(&in, &out, 1, DataType::int32, ReduceOp::sum);
      used[static_cast<std::size_t>(r)] =
          comm.algorithmFor(Collective::allreduce, 1, DataType::int32) + std::to_string(out);
    });
  for (auto& thread : threads) thread.join();
  REQUIRE(used == std::vector<std::string>{"ring3", "ring3", "ring3"});
}

TEST_CASE("many threads may use one communicator, each for its own peer") {
  auto ranks = Communicator::createAll(4, plainOptions("tcp"));
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            std::vector<std::string> wrong(4);
            std::vector<std::thread> threads;
            for (int peer = 0; peer < 4; ++peer)
              threads.emplace_back([&, peer] {
                if (peer == comm.rank()) return;
                for (int i = 0; i < 50; ++i) {
                  std::int32_t out = comm.rank() * 100 + i, in = -1;
                  Work sent = comm.sendAsync(&out, 1, DataType::int32, peer);
                  comm.recv(&in, 1, DataType::int32, peer);
                  sent.wait();
                  if (in != peer * 100 + i) wrong[static_cast<std::size_t>(peer)] = "wrong message";
                }
              });
            for (auto& thread : threads) thread.join();
            return firstComplaint(wrong);
          })) == "");
}

} // namespace rondo::test
