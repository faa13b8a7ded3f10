// A rank that reduces for ever. Ranks that join make the job larger, and dead ones make it smaller.
//
// Arguments: a file, and for a rank that joins its number. Rank 0 of each communicator publishes an
// id for newcomers: it makes an id and leaves it in the file. When newcomers wait there, all ranks
// grow. Prints "ready RANK PID" after some calls; "error RANK NANOSECONDS CALLED CODE CULPRIT TEXT"
// at each failure of a communicator; "recovered RANK SIZE RANKS BEGUN MADE REDUCED" after the first
// correct AllReduce of a new communicator; "refused RANK CODE CULPRIT TEXT" when it gives up.
// RANK is the number of the process, RANKS has a bit for each that took part, and times are in
// nanoseconds.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "faults/programs/say.h"
#include "rondo/communicator.h"

namespace {

using rondo::test::now;
using rondo::test::say;

using rondo::Communicator;
using rondo::DataType;
using rondo::Error;
using rondo::UniqueId;

std::string describe(const Error& error) {
  return std::string(rondo::name(error.code())) + " " + std::to_string(error.culprit()) + " " +
         error.what() + "\n";
}

/// Adds up a bit of each process, and ones. Returns the bits, or 0 for a wrong result.
std::uint64_t reduce(Communicator& comm, int number) {
  std::array<std::uint64_t, 1000> data;
  data.fill(1);
  data[0] = std::uint64_t{1} << number;
  comm.allReduce(data.data(), data.data(), data.size(), DataType::uint64, rondo::ReduceOp::sum);
  for (std::size_t i = 1; i < data.size(); ++i)
    if (data[i] != static_cast<std::uint64_t>(comm.size())) return 0;
  return data[0];
}

/// The id for the next newcomers, in the process of rank 0.
class OpenId {
 public:
  explicit OpenId(std::string file) : file_(std::move(file)) {}
  ~OpenId() { close(); }

  void open() {
    close();
    id_ = UniqueId::create();
    const std::string fresh = file_ + "." + std::to_string(::getpid());
    const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (::write(fd, id_->bytes.data(), id_->bytes.size()) < 0) std::_Exit(9);
    ::close(fd);
    std::rename(fresh.c_str(), file_.c_str());
  }
  void close() {
    if (id_) id_->withdraw();
    id_.reset();
  }
  int waiting() const { return id_ ? id_->waiting() : 0; }
  const std::optional<UniqueId>& id() const { return id_; }

 private:
  const std::string file_;
  std::optional<UniqueId> id_;
};

/// Tries again when the id is that of a rank that has ended, or of a growth that has failed.
std::optional<Communicator> join(const std::string& file) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::chrono::steady_clock::now() < end) {
    UniqueId id;
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    const bool read = fd >= 0 && ::read(fd, id.bytes.data(), id.bytes.size()) ==
                                     static_cast<ssize_t>(id.bytes.size());
    if (fd >= 0) ::close(fd);
    try {
      if (read) return Communicator::join(id);
    } catch (const Error& error) {
      std::fprintf(stderr, "joins again: %s", describe(error).c_str());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

void recovered(Communicator& comm, int number, long long begun, long long made) {
  const std::uint64_t ranks = reduce(comm, number);
  say("recovered " + std::to_string(number) + " " + std::to_string(comm.size()) + " " +
      std::to_string(ranks) + " " + std::to_string(begun) + " " + std::to_string(made) + " " +
      std::to_string(now()) + "\n");
}

/// Reduces, and grows when newcomers wait, until the communicator fails.
void work(Communicator& comm, int number, OpenId& open_id) {
  if (comm.rank() == 0) open_id.open();
  for (int i = 0;; ++i) {
    if (i == 100) say("ready " + std::to_string(number) + " " + std::to_string(::getpid()) + "\n");
    if (reduce(comm, number) == 0) say("refused " + std::to_string(number) + " data -1 wrong\n");
    std::int32_t newcomers = comm.rank() == 0 ? open_id.waiting() : 0;
    comm.broadcast(&newcomers, &newcomers, 1, DataType::int32, 0);
    if (newcomers == 0) continue;
    const long long begun = now();
    try {
      Communicator next = open_id.id() ? comm.grow(newcomers, *open_id.id()) : comm.grow(newcomers);
      const long long made = now();
      comm = std::move(next);
      recovered(comm, number, begun, made);
    } catch (const Error& error) { // a newcomer died: the others go on as before
      if (comm.failure()) throw;
      std::fprintf(stderr, "grows later: %s", describe(error).c_str());
    }
    if (comm.rank() == 0) open_id.open();
  }
}

} // namespace

int main(int argc, char** argv) {
  const std::string file = argv[1];
  std::optional<Communicator> comm;
  int number = argc > 2 ? std::atoi(argv[2]) : -1;
  const long long began = now();
  if (number >= 0) comm = join(file);
  else comm = Communicator::create(rondo::Rendezvous::environment());
  if (!comm) {
    say("refused " + std::to_string(number) + " init_failed -1 no id\n");
    return 4;
  }
  bool joined = number >= 0;
  if (!joined) number = comm->rank();
  OpenId open_id(file);
  for (;;) {
    const long long called = now();
    try {
      if (std::exchange(joined, false)) recovered(*comm, number, began, called);
      work(*comm, number, open_id);
    } catch (const Error& error) {
      if (std::getenv("GROWING_TALKS")) std::fprintf(stderr, "%d: %s\n", number, error.what());
      say("error " + std::to_string(number) + " " + std::to_string(now()) + " " +
          std::to_string(called) + " " + describe(error));
    }
    const long long known = now();
    try {
      Communicator next = comm->shrink();
      const long long shrunk = now();
      *comm = std::move(next);
      recovered(*comm, number, known, shrunk);
    } catch (const Error& error) {
      if (comm->failure() && error.code() == rondo::ErrorCode::peer_dead) continue;
      say("refused " + std::to_string(number) + " " + describe(error));
      return 4;
    }
  }
}
