// Proves: results do not depend on the floating-point environments of the callers, and calls leave
// these as they were.
#include <bit>
#include <cfenv>
#include <cstring>

#include "plan/registry.h"
#include "support/grid.h"
#include "support/ranks.h"
#include "support/test.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace rondo::test {
namespace {

using Bytes = std::vector<std::byte>;

/// This thread flushes subnormal numbers to zero, as code built with -ffast-math does.
class Flushing {
 public:
#if defined(__SSE2__)
  Flushing() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~Flushing() { _mm_setcsr(before_); }
  static bool active() { return (_mm_getcsr() & 0x8040) == 0x8040; }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  Flushing() : before_(word()) { asm volatile("msr fpcr, %0" : : "r"(before_ | kFlush)); }
  ~Flushing() { asm volatile("msr fpcr, %0" : : "r"(before_)); }
  static bool active() { return (word() & kFlush) != 0; }

 private:
  static constexpr unsigned long kFlush = 1UL << 24;
  static unsigned long word() {
    unsigned long now = 0;
    asm volatile("mrs %0, fpcr" : "=r"(now));
    return now;
  }
  unsigned long before_;
#else
  static bool active() { return true; }
#endif
};

class RoundingUp {
 public:
  RoundingUp() { std::fesetround(FE_UPWARD); }
  ~RoundingUp() { std::fesetround(before_); }
  static bool active() { return std::fegetround() == FE_UPWARD; }

 private:
  int before_ = std::fegetround();
};

/// Alternates subnormal numbers and numbers whose sums are rounded.
Bytes inputOf(DataType type, std::size_t count, int rank) {
  Bytes bytes(count * sizeOf(type));
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = 1 + (i + static_cast<std::size_t>(rank)) % 5; // the smallest numbers
    const double number = (1.0 + rank) / (3.0 + static_cast<double>(i % 7));
    if (i % 2 == 0 && type == DataType::float64) bits = std::bit_cast<std::uint64_t>(number);
    if (i % 2 == 0 && type == DataType::float32)
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
    if (i % 2 == 0 && type == DataType::bfloat16)
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(number)) >> 16;
    if (i % 2 == 0 && type == DataType::float16) bits = 0x3555 + i % 7;
    if (i % 2 == 0 && type == DataType::int32) bits = 1001 * i;
    std::memcpy(bytes.data() + i * sizeOf(type), &bits, sizeOf(type));
  }
  return bytes;
}

struct Shape {
  DataType type;
  ReduceOp op;
  std::size_t count;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const DataType type : {DataType::float32, DataType::float64, DataType::bfloat16,
                              DataType::float16, DataType::int32})
    for (const ReduceOp op : {ReduceOp(ReduceOp::sum), ReduceOp(ReduceOp::avg),
                              ReduceOp(ReduceOp::max), ReduceOp::preMulSum(0.3)})
      for (const std::size_t count : {std::size_t{2}, std::size_t{1001}})
        all.push_back({type, op, count});
  for (const DataType type : {DataType::float32, DataType::float64, DataType::bfloat16,
                              DataType::float16, DataType::int32})
    all.push_back({type, ReduceOp::sum, 80'000}); // several messages of each rank
  return all;
}

std::vector<Bytes> inputsOf(int rank) {
  std::vector<Bytes> all;
  for (const Shape& shape : shapes()) all.push_back(inputOf(shape.type, shape.count, rank));
  return all;
}

/// The concatenated results of one rank.
Bytes resultsOf(Communicator& comm, const std::vector<Bytes>& inputs) {
  Bytes all;
  auto in = inputs.begin();
  for (const Shape& shape : shapes()) {
    Bytes out(in->size());
    comm.allReduce(in->data(), out.data(), shape.count, shape.type, shape.op);
    all.insert(all.end(), out.begin(), out.end());
    ++in;
  }
  return all;
}

/// Results of all ranks; none if the options' algorithm does not support the call. With `mixed`,
/// rank 1's thread flushes, and rank 2's rounds up.
std::vector<Bytes> run(const Options& options, int size, bool mixed) {
  auto ranks = Communicator::createAll(size, options);
  std::vector<Bytes> results(ranks.size());
  const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
    Bytes& mine = results[static_cast<std::size_t>(comm.rank())];
    const std::vector<Bytes> inputs = inputsOf(comm.rank()); // before the environment changes
    if (mixed && comm.rank() == 1) {
      const Flushing flushing;
      mine = resultsOf(comm, inputs);
      if (!Flushing::active()) return "the program's environment is another one after the call";
    } else if (mixed && comm.rank() == 2) {
      const RoundingUp up;
      mine = resultsOf(comm, inputs);
      if (!RoundingUp::active()) return "the program's environment is another one after the call";
    } else {
      mine = resultsOf(comm, inputs);
    }
    return {};
  }));
  if (wrong.find("rank order") != std::string::npos) return {};
  REQUIRE(wrong == "");
  return results;
}

} // namespace

TEST_CASE("results do not depend on the callers' floating-point environments", "[sums]") {
  constexpr const char* kTransports[] = {"inproc", "shm", "tcp"};
  std::size_t number = 0;
  for (const bool deterministic : {true, false})
    for (const plan::Algorithm* algorithm :
         plan::supporting({.collective = Collective::allreduce, .ranks = 4})) {
      ++number; // with sanitizers, each algorithm runs over one transport only
      for (const char* transport : kTransports) {
        if (!kWholeGrid && transport != kTransports[number % 3]) continue;
        Options options = plainOptions(transport, std::string(algorithm->name));
        options.deterministic = deterministic;
        INFO(transport << ", " << algorithm->name << ", deterministic " << deterministic);
        const std::vector<Bytes> expected = run(options, 4, false);
        const std::vector<Bytes> mixed = run(options, 4, true);
        CHECK((mixed == expected)); // not by Catch2, which would print all bytes
        for (const Bytes& one : mixed) CHECK((one == mixed.front()));
      }
    }
}

TEST_CASE("the threads of a thread team compute as the caller's thread does") {
  Options options = plainOptions("inproc");
  options.threads = 3;
  const std::vector<Bytes> expected = run(options, 2, false);
  // The team's threads inherit the environment in which the communicator is made.
  const Flushing flushing;
  CHECK((run(options, 2, false) == expected));
}

} // namespace rondo::test
