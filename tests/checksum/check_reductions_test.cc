// Tests Options::check_reductions: a rank whose kernels compute wrongly is named on all ranks, and
// no rank is accused wrongly.
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/reduce.h"
#include "plan/registry.h"
#include "rondo/communicator.h"
#include "support/caught.h"
#include "support/collective_case.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {

// The linker replaces kernels::reduceFunction by the first of these (tests/CMakeLists.txt).
kernels::ReduceFunction functionOfTest(DataType type, ReduceOp::Kind op) asm(
    "__wrap__ZN5rondo7kernels14reduceFunctionENS_8DataTypeENS_8ReduceOp4KindE");
kernels::ReduceFunction functionOfLibrary(DataType type, ReduceOp::Kind op) asm(
    "__real__ZN5rondo7kernels14reduceFunctionENS_8DataTypeENS_8ReduceOp4KindE");

namespace {

/// Calls that this thread binds use kernels that compute wrongly.
thread_local bool computes_wrongly = false;

/// What wrong kernels do.
struct Fault {
  std::size_t lanes = 1, lane = 0; ///< elements that are wrong: each `lanes`-th, from `lane` on
  int right_passes = 0;            ///< so many passes before are right
  std::atomic<int> passes{0};
} fault;

constexpr std::size_t kFunctions = kDataTypes.size() * ReduceOp::kKindCount;

/// The library's functions: those of the type kDataTypes[i / kKindCount].
const std::array<kernels::ReduceFunction, kFunctions>& functions() {
  static const auto all = [] {
    std::array<kernels::ReduceFunction, kFunctions> found{};
    for (std::size_t i = 0; i < kFunctions; ++i) {
      const DataType type = kDataTypes[i / ReduceOp::kKindCount];
      const ReduceOp op = kReduceOps[i % ReduceOp::kKindCount];
      if (op.supports(type)) found[i] = functionOfLibrary(type, op.kind());
    }
    return found;
  }();
  return all;
}

/// The library's function, after which a bit of some elements is flipped.
template <std::size_t i>
void wrongly(void* const* outputs, std::size_t output_count, const void* const* inputs,
             std::size_t input_count, std::size_t count) {
  functions()[i](outputs, output_count, inputs, input_count, count);
  if (fault.passes++ < fault.right_passes) return;
  const std::size_t size = sizeOf(kDataTypes[i / ReduceOp::kKindCount]);
  for (std::size_t j = 0; j < output_count; ++j)
    for (std::size_t at = fault.lane; at < count; at += fault.lanes)
      static_cast<std::byte*>(outputs[j])[at * size] ^= std::byte{1};
}

template <std::size_t... i>
constexpr auto wrongFunctions(std::index_sequence<i...>) {
  return std::array<kernels::ReduceFunction, sizeof...(i)>{wrongly<i>...};
}

} // namespace

kernels::ReduceFunction functionOfTest(DataType type, ReduceOp::Kind op) {
  static constexpr auto kWrong = wrongFunctions(std::make_index_sequence<kFunctions>());
  if (!computes_wrongly) return functionOfLibrary(type, op);
  std::size_t i = 0;
  while (kDataTypes[i / ReduceOp::kKindCount] != type ||
         kReduceOps[i % ReduceOp::kKindCount].kind() != op)
    ++i;
  return kWrong[i];
}

namespace {

Options checking(const std::string& transport, const std::string& algorithm = "") {
  Options options = plainOptions(transport, algorithm);
  options.check_reductions = true;
  return options;
}

/// What happened on a rank.
struct Outcome {
  Caught error;
  std::string complaint; ///< about the output, if there was no error
};

/// Makes the call, with kernels that compute wrongly on one rank, and then a barrier.
std::vector<Outcome> outcomes(std::vector<Communicator>& ranks, const CollectiveCase& call,
                              int wrong_rank) {
  std::vector<Outcome> all(ranks.size());
  fault.passes = 0;
  onRanks(ranks, [&](Communicator& comm) {
    Outcome& own = all[static_cast<std::size_t>(comm.rank())];
    CollectiveBuffers buffers(call, comm.rank(), comm.size());
    buffers.fill();
    own.error = caught([&] {
      computes_wrongly = comm.rank() == wrong_rank;
      Work work = call.start(comm, buffers.input(), buffers.output());
      computes_wrongly = false;
      work.wait();
      comm.barrier();
    });
    computes_wrongly = false;
    if (!own.error.threw) own.complaint = buffers.wrong();
    return std::string();
  });
  return all;
}

/// Requires that all ranks name this one, and returns true; or that no rank has noticed anything,
/// and that all results are right.
bool named(const std::vector<Outcome>& all, int wrong_rank) {
  const bool found = all[0].error.threw;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    INFO("rank " << rank << " of " << all.size() << ": " << all[rank].error.text);
    CHECK(all[rank].error.threw == found);
    CHECK(all[rank].complaint == "");
    if (!found) continue;
    CHECK(all[rank].error.code == ErrorCode::wrong_result);
    CHECK(all[rank].error.culprit == wrong_rank);
  }
  return found;
}

} // namespace

// Proves: wherever a rank takes part in the arithmetic, by any algorithm and transport, its errors
// are found, and all ranks name it.
TEST_CASE("check_reductions: a rank that computes wrongly is named on all ranks") {
  std::size_t turn = 0;
  for (const Collective collective : kCollectives) {
    if (!reduces(collective)) continue;
    int found = 0;
    for (const int size : {2, 3, 5})
      for (const plan::Algorithm* algorithm : plan::supporting({collective, size, 0, 0})) {
        const std::string transport = std::array{"inproc", "shm", "tcp"}[turn % 3];
        const int wrong_rank = static_cast<int>(turn++ % static_cast<std::size_t>(size));
        if (!kWholeGrid && turn % 4 != 0) continue;
        INFO(name(collective) << " by " << algorithm->name << ", " << size << " ranks, "
                              << transport);
        auto ranks =
            Communicator::createAll(size, checking(transport, "?" + std::string(algorithm->name)));
        CollectiveCase call;
        call.collective = collective;
        call.count = turn % 2 == 0 ? 5 : 5000;
        call.in_place = turn % 5 == 0 && traits(collective).in_place;
        found += named(outcomes(ranks, call, wrong_rank), wrong_rank) ? 1 : 0;
      }
    INFO(name(collective));
    if (kWholeGrid) CHECK(found > 0);
  }
}

// Proves: the samples go through all lanes of vectors, so that errors of one lane are found.
TEST_CASE("check_reductions: one wrong lane of a vector is found after some calls") {
  fault.lanes = 16;
  for (fault.lane = 0; fault.lane < 16; ++fault.lane) {
    auto ranks = Communicator::createAll(2, checking("inproc"));
    CollectiveCase call;
    call.count = 4096;
    int calls = 0;
    for (bool found = false; !found && calls < 500; ++calls) {
      const auto all = outcomes(ranks, call, 1);
      found = all[0].error.threw;
      if (found) CHECK(named(all, 1));
    }
    INFO("lane " << fault.lane);
    CHECK(calls < 500);
  }
  fault.lanes = 1;
  fault.lane = 0;
}

// Proves: the samples of a call all arrive, also the last ones, if they fill many messages.
TEST_CASE("check_reductions: an error at the end of a large call is found") {
  for (const char* transport : {"shm", "tcp"}) {
    CollectiveCase call;
    call.type = DataType::uint8;
    call.count = std::size_t{1} << 20;
    Options options = checking(transport);
    options.channel_bytes = 16 << 10; // small messages
    auto ranks = Communicator::createAll(2, options);
    INFO(transport);
    fault.right_passes = 1 << 30;
    CHECK(!named(outcomes(ranks, call, 0), 0));
    fault.right_passes = fault.passes - 1;
    CHECK(fault.right_passes > 100);
    CHECK(named(outcomes(ranks, call, 0), 0));
    fault.right_passes = 0;
  }
}

TEST_CASE("check_reductions: the error names call, element, operands and results") {
  auto ranks = Communicator::createAll(2, checking("inproc", "?butterfly"));
  std::array<Caught, 2> errors;
  onRanks(ranks, [&](Communicator& comm) {
    float values[] = {comm.rank() + 1.0f};
    errors.at(static_cast<std::size_t>(comm.rank())) = caught([&] {
      comm.barrier();
      computes_wrongly = comm.rank() == 1;
      comm.allReduce(values, ReduceOp::sum);
      comm.barrier();
    });
    computes_wrongly = false;
    return std::string();
  });
  for (const Caught& error : errors)
    CHECK(says(
        error, ErrorCode::wrong_result,
        {"AllReduce #2", "rank 1 computed element 0 wrongly: ", "1 (0x3f800000)", "2 (0x40000000)",
         " gave 3.00000024 (0x40400001), on rank 0 it gives "
         "3 (0x40400000)"}));
}

// Proves: all ranks check or none does.
TEST_CASE("check_reductions: all ranks follow rank 0") {
  for (const bool first : {false, true}) {
    const Rendezvous meet = Rendezvous::inProcess(2);
    Options options = checking("inproc");
    options.check_reductions = !first;
    auto other = Communicator::createAsync(meet.as(1), options);
    options.check_reductions = first;
    std::vector<Communicator> ranks;
    ranks.push_back(Communicator::create(meet.as(0), options));
    ranks.push_back(other.get());
    CollectiveCase call;
    call.count = 100;
    const auto all = outcomes(ranks, call, 1);
    if (first) CHECK(named(all, 1));
    else CHECK((!all[0].error.threw && !all[1].error.threw));
  }
}

// Proves: no rank is accused if all compute rightly, for every algorithm, type and operator, with
// a thread team, and with checksums.
TEST_CASE("check_reductions: right results are right") {
  std::vector<std::pair<DataType, ReduceOp>> pairs;
  for (const DataType type : kDataTypes)
    for (const ReduceOp op : kReduceOps)
      if (op.supports(type)) pairs.emplace_back(type, op);
  std::size_t turn = 0;
  for (const int size : kRankCounts)
    for (const Collective collective : kCollectives) {
      if (!reduces(collective)) continue;
      for (const plan::Algorithm* algorithm : plan::supporting({collective, size, size - 1, 0})) {
        Options options = checking(std::array{"inproc", "shm", "tcp"}[turn % 3],
                                   "?" + std::string(algorithm->name));
        options.threads = turn % 7 == 0 ? 2 : 1;
        options.checksum = turn % 4 == 0;
        auto ranks = Communicator::createAll(size, options);
        const std::size_t begin = turn++ * 12;
        INFO(name(collective) << " by " << algorithm->name << ", " << size << " ranks");
        CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) {
                std::string complaint;
                for (std::size_t i = begin; i < begin + 12 && complaint.empty(); ++i) {
                  CollectiveCase call;
                  call.collective = collective;
                  std::tie(call.type, call.op) = pairs[i % pairs.size()];
                  // With other numbers of ranks, averages of floats depend on the order.
                  if (call.op == ReduceOp::avg && !std::has_single_bit(static_cast<unsigned>(size)))
                    call.op = ReduceOp::sum;
                  call.count = std::array<std::size_t, 5>{0, 1, 7, 1025, 20'001}[i % 5];
                  call.root = size - 1;
                  call.in_place = i % 2 == 0 && traits(collective).in_place;
                  call.async = i % 3 == 0;
                  complaint = call.run(comm);
                }
                return complaint;
              })) == "");
      }
    }
}

// Proves: operands of all kinds (NaN, subnormals, numbers that are rounded) are no reason for a
// false alarm, nor is a program that changes the rounding mode.
TEST_CASE("check_reductions: random operands raise no alarm") {
  auto ranks = Communicator::createAll(3, checking("inproc"));
  CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) {
          std::mt19937_64 random(static_cast<unsigned>(comm.rank()));
          std::vector<std::uint64_t> data(3000), sum(data.size());
          for (const DataType type : kDataTypes)
            for (const ReduceOp op : kReduceOps) {
              if (!op.supports(type)) continue;
              for (std::uint64_t& word : data) word = random();
              comm.allReduce(data.data(), sum.data(), data.size() * 8 / sizeOf(type), type, op);
            }
          return std::string();
        })) == "");
}

// Proves: the exchange of samples has the deadline of the call, and its error names the rank that
// does not come. In a chain, rank 0 has nothing to wait for except this exchange.
TEST_CASE("check_reductions: the exchange of samples ends at the deadline") {
  Options options = checking("shm", "?chain");
  options.timeout = std::chrono::milliseconds(500);
  auto ranks = Communicator::createAll(3, options);
  Caught error; // of rank 0
  onRanks(ranks, [&](Communicator& comm) {
    float in[] = {1}, out[] = {0};
    const auto scan = [&] { comm.scan(in, out, 1, DataType::float32, ReduceOp::sum); };
    scan(); // opens the channels
    if (comm.rank() == 0) error = caught(scan);
    if (comm.rank() == 1) scan();
    return std::string();
  });
  CHECK(says(error, ErrorCode::timeout, {"check of reductions", "rank 2"}));
}

} // namespace rondo::test
