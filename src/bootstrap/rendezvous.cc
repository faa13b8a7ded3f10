// Implements unique ids, the kinds of rendezvous, and Launch.
#include "rondo/rendezvous.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/random.h"
#include "base/unique_fd.h"
#include "bootstrap/launcher.h"
#include "bootstrap/local_group.h"
#include "bootstrap/process_jobs.h"
#include "bootstrap/session.h"
#include "bootstrap/unique_id.h"
#include "net/interfaces.h"
#include "rondo/error.h"
#include "rondo/options.h"

namespace rondo {

namespace {

void checkRank(int rank, int size) {
  if (rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(rank) + " is not in 0 to " + std::to_string(size - 1));
}

void checkSize(int size) {
  constexpr int kMostRanks = bootstrap::Hub::kMostRanks;
  if (size < 1 || size > kMostRanks)
    throw Error(ErrorCode::invalid_argument,
                std::to_string(size) + " ranks: must be 1 to " + std::to_string(kMostRanks));
}

/// size 0: not known yet.
bootstrap::IdContent openHub(const net::SocketAddress& address, int size) {
  bootstrap::IdContent content;
  content.job = base::randomNumber();
  content.secret = net::Secret::random();
  bootstrap::Hub::Settings hub;
  hub.address = address;
  hub.secret = content.secret;
  hub.job = content.job;
  hub.size = size;
  content.hub = bootstrap::ProcessJobs::ofProcess().host(hub);
  return content;
}

[[noreturn]] void systemError(const char* what) {
  throw Error(ErrorCode::system, std::string(what) + ": " + std::strerror(errno));
}

/// A sealed memory file with the id, which cannot be changed and has no name in a file system.
base::UniqueFd sealedDescriptor(const UniqueId& id) {
  base::UniqueFd fd(::memfd_create("rondo-id", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) systemError("cannot make a descriptor for the unique id");
  fd.shareWithChildren(); // a launcher's child process executes the rank
  if (::pwrite(fd.get(), id.bytes.data(), id.bytes.size(), 0) !=
      static_cast<ssize_t>(id.bytes.size()))
    systemError("cannot store the unique id");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
    systemError("cannot seal the unique id");
  return fd;
}

} // namespace

UniqueId UniqueId::create() { return create(Options::fromEnvironment()); }

UniqueId UniqueId::create(const Options& options) {
  net::AddressWish wish;
  wish.interfaces = options.socket_interface;
  wish.family = options.socket_family;
  return openHub(net::chooseAddress(wish), 0).encode();
}

int UniqueId::waiting() const {
  const std::uint64_t job = bootstrap::IdContent::decode(*this).job;
  if (const auto count = bootstrap::ProcessJobs::ofProcess().waiting(job)) return *count;
  throw Error(ErrorCode::invalid_argument,
              "waiting: this process does not serve the rendezvous of this unique id");
}

void UniqueId::withdraw() const {
  bootstrap::ProcessJobs::ofProcess().withdraw(bootstrap::IdContent::decode(*this).job);
}

struct Launch::Impl {
  int size = 0;
  std::uint64_t job = 0;
  base::UniqueFd id;

  ~Impl() { bootstrap::ProcessJobs::ofProcess().dismiss(job); }
};

Launch::Launch(int size) {
  checkSize(size);
  net::SocketAddress loopback;
  loopback.ip[0] = std::byte{127};
  loopback.ip[3] = std::byte{1};
  const bootstrap::IdContent content = openHub(loopback, size);
  impl_ = std::make_unique<Impl>();
  impl_->size = size;
  impl_->job = content.job;
  impl_->id = sealedDescriptor(content.encode());
}
Launch::~Launch() = default;

int Launch::descriptor() const { return impl_->id.get(); }

std::vector<std::string> Launch::environment(int rank) const {
  checkRank(rank, impl_->size);
  return {"RONDO_RANK=" + std::to_string(rank), "RONDO_SIZE=" + std::to_string(impl_->size),
          "RONDO_LOCAL_RANK=" + std::to_string(rank),
          "RONDO_ID_FD=" + std::to_string(descriptor())};
}

void Launch::ended(int rank) {
  checkRank(rank, impl_->size);
  bootstrap::ProcessJobs::ofProcess().ended(impl_->job, rank);
}

Rendezvous Rendezvous::inProcess(int size) {
  checkSize(size);
  Rendezvous meet;
  meet.kind_ = Kind::in_process;
  meet.size_ = size;
  meet.group_ = std::make_shared<bootstrap::LocalGroup>(size);
  return meet;
}

Rendezvous Rendezvous::as(int rank) const {
  if (kind_ != Kind::in_process)
    throw Error(ErrorCode::invalid_argument, "as() is only for a Rendezvous from inProcess()");
  checkRank(rank, size_);
  Rendezvous meet = *this;
  meet.rank_ = rank;
  return meet;
}

Rendezvous Rendezvous::uniqueId(const UniqueId& id, int rank, int size) {
  checkSize(size);
  checkRank(rank, size);
  Rendezvous meet;
  meet.kind_ = Kind::unique_id;
  meet.rank_ = rank;
  meet.size_ = size;
  meet.id_ = id;
  return meet;
}

Rendezvous Rendezvous::commId(int rank, int size) {
  checkSize(size);
  checkRank(rank, size);
  Rendezvous meet;
  meet.kind_ = Kind::comm_id;
  meet.rank_ = rank;
  meet.size_ = size;
  return meet;
}

Rendezvous Rendezvous::environment() {
  Rendezvous meet;
  meet.kind_ = Kind::environment;
  try {
    const LaunchInfo launch = detectLauncher();
    meet.rank_ = launch.rank;
    meet.size_ = launch.size;
  } catch (const Error&) {
    // Communicator::create() throws the same error.
  }
  return meet;
}

LaunchInfo Rendezvous::detectLauncher() {
  return bootstrap::detectLauncher(bootstrap::processEnvironment());
}

} // namespace rondo
