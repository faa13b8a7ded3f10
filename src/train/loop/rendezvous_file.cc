// Writes and reads the rendezvous file, and joins by its id.
#include "train/loop/rendezvous_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/above_streams.h"
#include "rondo/train.h"

namespace rondo {

namespace {

/// The open file. It is never replaced, since a launcher's has no name; a reader that meets a
/// writer finds a wrong check sum in the id, and reads again.
class IdFile {
 public:
  IdFile(const std::string& path, int flags)
      : path_(path), fd_(base::aboveStreams(::open(path.c_str(), flags | O_CLOEXEC, 0600))) {
    if (fd_ < 0) return;
    struct stat status {};
    if (::fstat(fd_, &status) == 0 && status.st_uid == ::geteuid() && (status.st_mode & 077) == 0)
      return;
    ::close(fd_);
    throw Error(ErrorCode::data, "train: rendezvous file " + path_ +
                                     " holds a secret, so it must belong to its user, with mode "
                                     "0600");
  }
  ~IdFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  IdFile(const IdFile&) = delete;
  IdFile& operator=(const IdFile&) = delete;

  bool write(const UniqueId& id) {
    return fd_ >= 0 &&
           ::pwrite(fd_, id.bytes.data(), id.bytes.size(), 0) == static_cast<ssize_t>(sizeof id);
  }
  bool read(UniqueId& id) {
    return fd_ >= 0 &&
           ::pread(fd_, id.bytes.data(), id.bytes.size(), 0) == static_cast<ssize_t>(sizeof id);
  }

 private:
  const std::string path_;
  const int fd_;
};
static_assert(sizeof(UniqueId) == sizeof(UniqueId::bytes));

} // namespace

namespace training {

void RendezvousFile::publish() {
  withdraw();
  if (file_.empty()) return;
  id_ = UniqueId::create();
  if (IdFile(file_, O_WRONLY | O_CREAT).write(*id_)) return;
  const std::string why = std::strerror(errno);
  withdraw();
  throw Error(ErrorCode::system,
              "train: rendezvous file " + file_ + " could not be written: " + why);
}

void RendezvousFile::withdraw() {
  if (id_) id_->withdraw();
  id_.reset();
}

} // namespace training

Communicator joinTraining(const std::string& rendezvous_file, const Options& options) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPause{20}, kLeast{1};
  const Clock::time_point limit = Clock::now() + options.init_timeout;
  std::string why = "it has no id of a run";
  do {
    Options left = options;
    left.init_timeout = std::max(
        std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()), kLeast);
    UniqueId id;
    try {
      if (IdFile(rendezvous_file, O_RDONLY).read(id)) return Communicator::join(id, left);
    } catch (const Error& error) {
      const bool passes =
          error.code() == ErrorCode::init_failed || error.code() == ErrorCode::invalid_argument ||
          error.code() == ErrorCode::peer_dead || error.code() == ErrorCode::aborted;
      if (!passes) throw;
      why = error.what();
    }
    std::this_thread::sleep_for(kPause);
  } while (Clock::now() < limit);
  throw Error(ErrorCode::init_failed,
              "cannot join the training by rendezvous file " + rendezvous_file + ": " + why);
}

} // namespace rondo
