// The same programs on processors without AVX-512, AVX2 and SSE4, which QEMU emulates.
#include <set>
#include <string>
#include <vector>

#include "kernels/reduce.h"
#include "support/paths.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

const std::string kProgram = RONDO_TEST_PROGRAMS "/program_every_reduction";

struct Processor {
  const char* name; ///< as QEMU names it
  const char* set;  ///< that the kernels must choose on it; empty: the compiler's baseline
};
constexpr Processor kProcessors[] = {{"qemu64", ""}, {"Westmere", "SSE4"}, {"Haswell", "AVX2"}};

std::vector<std::string> linesHere() {
  const Outcome own = shell(kProgram);
  INFO(own.err);
  REQUIRE(own.status == 0);
  std::vector<std::string> lines = linesOf(own.out);
  REQUIRE(lines.size() > 60);
  return lines;
}

TEST_CASE("a program reduces with the widest instructions that its processor has") {
  const std::string set = linesHere()[0];
  CHECK(set == "set " + std::string(kernels::instructionSet()));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    CHECK(set == "set AVX3");
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    CHECK(set == "set AVX2");
#endif
}

// Proves: no instruction runs that the processor lacks (that would end the program), and results
// do not depend on the processor. Sanitizers do not run under QEMU.
TEST_CASE("reductions have the same bits on processors with and without AVX2 and AVX-512",
          "[release]") {
#if defined(__x86_64__)
  if (shell("qemu-x86_64 --version").status != 0) {
    WARN("skipped: there is no qemu-x86_64 (Debian: qemu-user)");
    return;
  }
  const std::vector<std::string> expected = linesHere();
  for (const Processor& processor : kProcessors) {
    INFO(processor.name);
    const Outcome other = shell(std::string("qemu-x86_64 -cpu ") + processor.name + " " + kProgram);
    INFO(other.err);
    CHECK(other.status == 0);
    const std::vector<std::string> lines = linesOf(other.out);
    REQUIRE(lines.size() == expected.size());
    if (*processor.set != '\0') CHECK(lines[0] == std::string("set ") + processor.set);
    else CHECK(std::set<std::string>{"set SCALAR", "set SSE2"}.contains(lines[0]));
    for (std::size_t i = 1; i < lines.size(); ++i) CHECK(lines[i] == expected[i]);
  }
#else
  WARN("skipped: this is no x86-64 processor");
#endif
}

// Proves: the command, with its collectives, checksums, TLS and trainer, needs no instruction that
// some x86-64 processor lacks. So no processor is too old.
TEST_CASE("the command runs on the oldest x86-64 processor", "[release]") {
#if defined(__x86_64__)
  const std::string old = "qemu-x86_64 -cpu qemu64 "; // it lacks SSE4
  if (shell(old + "-version").status != 0) {
    WARN("skipped: there is no qemu-x86_64 (Debian: qemu-user)");
    return;
  }
  // An emulated rank is slow, and must not count as unresponsive on a busy machine.
  const std::string settings = "export RONDO_HEARTBEAT=60 RONDO_TIMEOUT=600\n";
  for (const char* transport : {"RONDO_TRANSPORT=shm", "RONDO_TRANSPORT=tcp RONDO_CHECKSUM=1",
                                "RONDO_TRANSPORT=tcp RONDO_TLS=1"}) {
    INFO(transport);
    const Outcome bench = shell(settings + transport + " $RONDO run -p 2 -- " + old +
                                "$RONDO bench allreduce -b 64 -e 64K -f 32 -w 1 -n 1");
    INFO(bench.err);
    CHECK(bench.status == 0);
    CHECK(bench.out.find("# Out of bounds values : 0 OK") != std::string::npos);
  }
  const Outcome train = shell(settings + "$RONDO run -p 2 -- " + old +
                              "$RONDO train --model cnn --batch 16 --steps 1 --data "
                              "synthetic:shape=1x28x28,train=32,test=8");
  INFO(train.err);
  CHECK(train.status == 0);
  CHECK(train.out.find("test accuracy") != std::string::npos);
#else
  WARN("skipped: this is no x86-64 processor");
#endif
}

} // namespace
} // namespace rondo::test
