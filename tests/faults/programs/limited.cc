// A rank that runs out of a resource: lowers a limit of its process before it makes a communicator
// or before its first call, then prints how the call ended.
//
// Arguments: VICTIM RESOURCE SLACK WHEN CALL. VICTIM: a rank, or -1 for all. RESOURCE: `files`
// (descriptors in addition to the open ones), `size` (of a file) or `memory` (address space in
// addition to what is in use), of which SLACK (files, bytes) are left; or `memfd`, which the system
// then refuses with the error number SLACK; or `nothing`. WHEN: `create` or `call`. CALL: `reduce`
// or `broadcast` (from rank 0). Prints "end RANK MILLISECONDS CODE CULPRIT TEXT"; after success
// CODE is "none", and TEXT has the transports to all ranks.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "faults/programs/refuse.h"
#include "rondo/communicator.h"

namespace {

/// The limit that allows this many more descriptors.
rlim_t filesBelow(rlim_t slack) {
  int fd = 0;
  for (rlim_t unused = 0; unused < slack || ::fcntl(fd, F_GETFD) >= 0; ++fd)
    unused += ::fcntl(fd, F_GETFD) < 0;
  return static_cast<rlim_t>(fd);
}

rlim_t memoryInUse() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void limit(const std::string& resource, rlim_t slack) {
  if (resource == "nothing") return;
  if (resource == "memfd") return refuse(__NR_memfd_create, static_cast<unsigned>(slack));
  const bool files = resource == "files", memory = resource == "memory";
  const auto which = files ? RLIMIT_NOFILE : memory ? RLIMIT_AS : RLIMIT_FSIZE;
  rlimit limits{};
  if (::getrlimit(which, &limits) != 0) std::abort();
  limits.rlim_cur = files ? filesBelow(slack) : slack + (memory ? memoryInUse() : 0);
  if (::setrlimit(which, &limits) != 0) std::abort();
}

/// A call that opens channels, and a check of its result.
void makeCall(rondo::Communicator& comm, bool reduce) {
  constexpr auto kType = rondo::DataType::float32;
  std::vector<float> data(1000, reduce || comm.rank() == 0 ? 1.0f : 0.0f);
  if (reduce) comm.allReduce(data.data(), data.data(), data.size(), kType, rondo::ReduceOp::sum);
  else comm.broadcast(data.data(), data.data(), data.size(), kType, 0);
  // A rank whose part of the broadcast ended at once gets a failure here.
  if (!reduce) comm.barrier();
  if (data[999] != (reduce ? static_cast<float>(comm.size()) : 1.0f)) std::abort();
}

} // namespace

int main(int, char** argv) {
  const int rank = std::atoi(std::getenv("RONDO_RANK"));
  const bool victim = std::atoi(argv[1]) == rank || std::atoi(argv[1]) < 0;
  const std::string when = argv[4];
  const auto squeeze = [&](const char* now) {
    if (victim && when == now) limit(argv[2], std::strtoull(argv[3], nullptr, 10));
  };
  std::string code = "none", text;
  int culprit = -1;
  auto start = std::chrono::steady_clock::now();
  try {
    squeeze("create");
    auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
    squeeze("call");
    start = std::chrono::steady_clock::now();
    try {
      makeCall(comm, argv[5] == std::string("reduce"));
    } catch (...) {
      static_cast<void>(comm.memory()); // half-open channels must not disturb memory()
      throw;
    }
    for (int peer = 0; peer < comm.size(); ++peer)
      text += (peer > 0 ? " " : "") + comm.transportTo(peer);
    // A second communicator must not report anything new.
    if (when == "create") comm.split(0, rank);
  } catch (const rondo::Error& error) {
    code = rondo::name(error.code());
    culprit = error.culprit();
    text = error.what();
  }
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  std::printf("end %d %lld %s %d %s\n", rank, static_cast<long long>(took.count()), code.c_str(),
              culprit, text.c_str());
  std::fflush(stdout); // at exit a sanitizer may need the resource that has run out
}
