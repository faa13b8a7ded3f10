// A rank whose standard streams are closed, like a daemon's. Checks that Rondo does not use their
// descriptor numbers, and writes nothing into files that the program opens under these numbers.
//
// Argument: FILE. Writes "ok", or what is wrong, to FILE.RANK.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "rondo/communicator.h"

namespace {

using rondo::Communicator;
using rondo::Rendezvous;

constexpr int kStreams = 3;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void requireClosed(const std::string& when) {
  for (int fd = 0; fd < kStreams; ++fd)
    require(::fcntl(fd, F_GETFD) < 0, "descriptor " + std::to_string(fd) + " is open " + when);
}

void callAll(Communicator& comm) {
  for (const std::size_t count : {1UL, 1000UL, 300'000UL}) {
    std::vector<int> data(count);
    std::iota(data.begin(), data.end(), comm.rank());
    comm.allReduce(data.data(), data.data(), count, rondo::DataType::int32, rondo::ReduceOp::sum);
    const int size = comm.size(), last = static_cast<int>(count) - 1;
    require(data.back() == last * size + size * (size - 1) / 2, "a wrong sum");
  }
}

/// The same for a child made by fork().
void requireClosedInChild() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int fd = 0; fd < kStreams; ++fd)
      if (::fcntl(fd, F_GETFD) >= 0) ::_exit(1);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  require(status == 0, "a forked child has the number of a standard stream open");
}

void check(Communicator& comm, const std::string& file) {
  requireClosed("after create()");
  callAll(comm);
  requireClosed("after calls");
  {
    Communicator half = comm.split(comm.rank() % 2, 0).value();
    callAll(half);
    const auto memory = half.allocate(1 << 20);
    requireClosed("after split() and allocate()");
  }
  requireClosedInChild();

  // Files that the program opens now get the streams' numbers.
  for (int fd = 0; fd < kStreams; ++fd) {
    const std::string name = file + "." + std::to_string(comm.rank()) + ".own" + std::to_string(fd);
    require(::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) == fd,
            "the program did not get descriptor " + std::to_string(fd));
  }
  Communicator half = comm.split(comm.rank() % 2, 0).value();
  callAll(half);
  callAll(comm);
  comm.barrier();
  for (int fd = 0; fd < kStreams; ++fd) {
    struct stat info {};
    require(::fstat(fd, &info) == 0 && S_ISREG(info.st_mode),
            "the program lost descriptor " + std::to_string(fd));
    require(info.st_size == 0, "something was written to descriptor " + std::to_string(fd));
  }
}

} // namespace

int main(int, char** argv) {
  const std::string file = argv[1];
  std::string rank = "none", verdict = "ok";
  try {
    requireClosed("before all");
    Communicator comm = Communicator::create(Rendezvous::environment());
    rank = std::to_string(comm.rank());
    check(comm, file);
  } catch (const std::exception& error) {
    verdict = error.what();
  }
  const int fd = ::open((file + "." + rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (::write(fd, verdict.data(), verdict.size()) < 0) return 2;
  return verdict == "ok" ? 0 : 1;
}
