// A rank that reduces until something fails, shrinks its communicator to the ranks that live, and
// goes on, again and again.
//
// Argument: "agree" (shrink()), "exclude" (shrink() without the culprit), "late" (the same, a
// second after the failure) or "abandon" (shrink() half a second after rank 0 has aborted, closed
// its communicator and ended). A second argument K: rank 1 counts its calls of send() from its
// first `agreed` frame on, and kills itself instead of the K-th. With RONDO_TLS=1 an `agreed` frame
// in the clear ends the program. Prints
// "ready RANK PID" after some calls; "error RANK NANOSECONDS CALLED CODE CULPRIT TEXT" at each
// failure; "recovered RANK SIZE RANKS KNOWN SHRUNK REDUCED" after the first correct AllReduce of
// the new communicator; "refused RANK CODE CULPRIT TEXT" if shrink() fails, which ends the program.
// RANK is that of the job, RANKS has a bit for each rank of the job that took part, and times are
// in nanoseconds.
#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "bootstrap/frames.h"
#include "faults/programs/say.h"
#include "rondo/communicator.h"

namespace {

std::atomic<long> sends_before_death{-1};
std::atomic<long> sends_left{-1}; ///< negative: any number

bool isAgreed(const void* data, std::size_t bytes) {
  constexpr std::size_t kType = 4 + 1; // after the length and the version
  std::uint32_t length = 0;
  if (bytes <= kType) return false;
  std::memcpy(&length, data, sizeof(length));
  return length + sizeof(length) == bytes &&
         static_cast<const unsigned char*>(data)[kType] ==
             static_cast<unsigned char>(rondo::bootstrap::frames::Type::agreed);
}

} // namespace

extern "C" ssize_t send(int fd, const void* data, std::size_t bytes, int flags) {
  static auto* const real = reinterpret_cast<decltype(&::send)>(::dlsym(RTLD_NEXT, "send"));
  static const char* const tls = std::getenv("RONDO_TLS");
  if (tls && *tls == '1' && isAgreed(data, bytes)) {
    rondo::test::say("refused 0 data -1 an agreed frame in the clear\n");
    ::_exit(5);
  }
  if (sends_before_death >= 0 && sends_left < 0 && isAgreed(data, bytes))
    sends_left = sends_before_death.load();
  if (sends_left.load() >= 0 && sends_left.fetch_sub(1) <= 1) ::kill(::getpid(), SIGKILL);
  return real(fd, data, bytes, flags);
}

namespace {

using rondo::test::now;
using rondo::test::say;

std::string describe(const rondo::Error& error) {
  return std::string(rondo::name(error.code())) + " " + std::to_string(error.culprit()) + " " +
         error.what();
}

/// Adds up a bit of each rank, and ones. Returns the bits, or 0 for a wrong result.
std::uint64_t reduce(rondo::Communicator& comm, int rank) {
  std::array<std::uint64_t, 1000> data;
  data.fill(1);
  data[0] = std::uint64_t{1} << rank;
  comm.allReduce(data.data(), data.data(), data.size(), rondo::DataType::uint64,
                 rondo::ReduceOp::sum);
  for (std::size_t i = 1; i < data.size(); ++i)
    if (data[i] != static_cast<std::uint64_t>(comm.size())) return 0;
  return data[0];
}

} // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const bool abandons = how == "abandon", agrees = how == "agree" || abandons, late = how == "late";
  auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
  const int rank = comm.rank();
  const std::string who = std::to_string(rank);
  if (rank == 1 && argc > 2) sends_before_death = std::atol(argv[2]);
  for (;;) {
    long long called = 0;
    int culprit = -1;
    try {
      for (int i = 0;; ++i) {
        if (i == 200 && abandons && rank == 0) {
          comm.abort("rank 0 does not go on");
          return 0;
        }
        if (i == 100) say("ready " + who + " " + std::to_string(::getpid()) + "\n");
        called = now();
        if (reduce(comm, rank) == 0) say("refused " + who + " data -1 a wrong result\n");
      }
    } catch (const rondo::Error& error) {
      culprit = error.culprit();
      say("error " + who + " " + std::to_string(now()) + " " + std::to_string(called) + " " +
          describe(error) + "\n");
    }
    const long long known = now();
    if (late) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (abandons) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    try {
      const int excluded[] = {culprit};
      const bool names = !agrees && culprit >= 0;
      auto next = names ? comm.shrink(excluded) : comm.shrink();
      const long long shrunk = now();
      comm = std::move(next);
      const std::uint64_t ranks = reduce(comm, rank);
      say("recovered " + who + " " + std::to_string(comm.size()) + " " + std::to_string(ranks) +
          " " + std::to_string(known) + " " + std::to_string(shrunk) + " " + std::to_string(now()) +
          "\n");
    } catch (const rondo::Error& error) {
      // A rank that dies after the shrink breaks the new communicator, which shrinks again.
      if (comm.failure() && how == "agree" && error.code() == rondo::ErrorCode::peer_dead) continue;
      say("refused " + who + " " + describe(error) + "\n");
      return 4;
    }
  }
}
