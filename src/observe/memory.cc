// Makes the memory file, and hands out its blocks.
#include "observe/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <deque>
#include <mutex>
#include <new>
#include <string>
#include <system_error>

#include "base/fork.h"
#include "base/log.h"
#include "base/memory_file.h"
#include "base/ticks.h"
#include "base/unique_fd.h"
#include "rondo/error.h"

namespace rondo::observe {

namespace {

constexpr std::size_t kMostBlocks = 512;
/// Summaries of closed communicators that are kept while there are unused blocks.
constexpr std::size_t kKept = 64;

std::atomic<int> descriptor{-1};

std::uint64_t steadyClock() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

bool allocateAt(int fd, std::size_t at, std::size_t bytes) {
  int failed = 0;
  do failed = ::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(bytes));
  while (failed != 0 && errno == EINTR); // a signal came: a profiler's timer, say
  return failed == 0;
}

/// The file exists once in each process, like the process itself. Never destroyed: a signal handler
/// may read it while the process exits.
struct File {
  static File& ofProcess() {
    const base::NoFork whole; // a child would wait for ever for an initialisation that it inherits
    static File& instance = *new File;
    return instance;
  }

  /// Needs the mutex and NoFork. Tries again after a failure: limits may have been raised.
  bool ready() {
    // A child's copy of the descriptor is an unconnected socket; it gets a file of its own.
    if (process == ::getpid()) return true;
    std::string why;
    for (std::size_t most = kMostBlocks; most > 0; most /= 2) {
      try {
        fd = base::makeMemoryFile(blockAt(most), kPage);
      } catch (const Error& error) {
        why = error.what();
        continue;
      }
      FileHead head;
      head.blocks = static_cast<std::uint32_t>(most);
      head.process = static_cast<std::uint64_t>(::getpid());
      head.ticks = base::ticks();
      head.nanoseconds = steadyClock();
      ::gethostname(head.host, sizeof(head.host) - 1);
      if (::pwrite(fd.get(), &head, sizeof(head), 0) != static_cast<ssize_t>(sizeof(head))) {
        why = "pwrite: " + std::generic_category().message(errno);
        break;
      }
      blocks = most;
      fresh = 0;
      closed.clear();
      process = ::getpid();
      descriptor.store(fd.get(), std::memory_order_release);
      return true;
    }
    none(why);
    return false;
  }

  /// Once per process. Needs the mutex.
  void none(const std::string& why) {
    if (!told) base::log(LogLevel::info, "calls are not recorded: ", why);
    told = true;
  }

  std::mutex mutex;
  pid_t process = -1; ///< that made the file
  base::UniqueFd fd;
  std::size_t blocks = 0, fresh = 0;
  std::deque<std::size_t> closed; ///< the oldest first
  std::uint64_t opened = 0;
  bool told = false; ///< the log already says that calls are not recorded
};

} // namespace

int memoryFile() { return descriptor.load(std::memory_order_acquire); }

std::unique_ptr<Block> Block::take() {
  File& file = File::ofProcess();
  const base::NoFork whole;
  const std::lock_guard lock(file.mutex);
  if (!file.ready()) return nullptr;
  const bool reuse = file.closed.size() > kKept || file.fresh == file.blocks;
  if (reuse && file.closed.empty()) {
    file.none(std::to_string(file.blocks) +
              " communicators are open, or closed but not yet in their trace");
    return nullptr;
  }
  const std::size_t index = reuse ? file.closed.front() : file.fresh;
  const int fd = file.fd.get();
  const auto refused = [&file](const char* call) {
    file.none(call + std::generic_category().message(errno));
    return nullptr;
  };
  if (!allocateAt(fd, blockAt(index), kFewBytes)) return refused("fallocate: ");
  void* const at = ::mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                          static_cast<off_t>(blockAt(index)));
  if (at == MAP_FAILED) return refused("mmap: ");
  // As all shared memory (base/memory_file.h): a child could change what the parent reads.
  ::madvise(at, kBlockBytes, MADV_DONTFORK);
  if (reuse) file.closed.pop_front();
  else ++file.fresh;
  new (at) BlockHead;
  std::fill_n(reinterpret_cast<Record*>(static_cast<std::byte*>(at) + kPage), kFewRecords,
              Record{});
  static_cast<BlockHead*>(at)->opened = ++file.opened;
  return std::unique_ptr<Block>(new Block(index, at, ::getpid()));
}

bool Block::scarce() {
  File& file = File::ofProcess();
  const base::NoFork whole;
  const std::lock_guard lock(file.mutex);
  return 2 * (file.fresh - file.closed.size()) > file.blocks;
}

bool Block::here() const { return ::getpid() == process_; }

bool Block::allocate(std::size_t records) {
  const std::size_t bytes = kPage + records * sizeof(Record);
  if (!allocateAt(File::ofProcess().fd.get(), blockAt(index_), bytes)) return false;
#ifdef MADV_POPULATE_WRITE
  ::madvise(at_, bytes, MADV_POPULATE_WRITE); // now, so that no call pays for a page fault
#endif
  return true;
}

Block::~Block() {
  if (!here()) return;
  ::munmap(at_, kBlockBytes);
  File& file = File::ofProcess();
  const base::NoFork whole;
  const std::lock_guard lock(file.mutex);
  ::fallocate(file.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(blockAt(index_) + kPage), static_cast<off_t>(kBlockBytes - kPage));
  file.closed.push_back(index_);
}

} // namespace rondo::observe
