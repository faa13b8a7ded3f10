// Formats dumps, without memory of its own, and writes them on failure and on SIGQUIT.
#include "observe/dump.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/above_streams.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/no_signals.h"
#include "base/ticks.h"
#include "base/unique_fd.h"
#include "observe/memory.h"
#include "observe/recorder.h"

namespace rondo::observe {

namespace {

constexpr int kMostFailures = 8, kMostSignals = 64;
constexpr std::size_t kLongestFolder = 3072;
/// How long all dumps together may delay the threads that get failures: a control thread that waits
/// sends no heartbeats.
constexpr std::chrono::milliseconds kLongestDelay{200};
/// How long the end of the process waits for dumps.
constexpr std::chrono::seconds kLastDumps{5};
constexpr std::chrono::milliseconds kLook{1};

std::uint64_t readClock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Builds lines of JSON in a buffer and writes them. (snprintf() is not async-signal-safe.)
class Lines {
 public:
  explicit Lines(int fd) : fd_(fd) {}

  Lines& raw(std::string_view text) {
    for (const char c : text) add(c);
    return *this;
  }
  Lines& number(std::uint64_t value) {
    std::array<char, 20> digits{};
    std::size_t at = digits.size();
    do digits[--at] = static_cast<char>('0' + value % 10);
    while (value /= 10);
    return raw({&digits[at], digits.size() - at});
  }
  Lines& integer(std::int64_t value) {
    if (value < 0) add('-');
    return number(value < 0 ? ~static_cast<std::uint64_t>(value) + 1
                            : static_cast<std::uint64_t>(value));
  }
  /// A string of 16 hexadecimal digits: JSON's numbers are not exact above 2^53.
  Lines& id(std::uint64_t value) {
    add('"');
    for (int shift = 60; shift >= 0; shift -= 4) add("0123456789abcdef"[value >> shift & 15]);
    add('"');
    return *this;
  }
  /// A string up to a zero, as printable ASCII.
  template <std::size_t size>
  Lines& text(const char (&from)[size]) {
    return text(std::string_view(from, ::strnlen(from, size)));
  }
  Lines& text(std::string_view from) {
    add('"');
    for (const char c : from) {
      if (c == '"' || c == '\\') add('\\');
      add(c >= 0x20 && c < 0x7f ? c : '?');
    }
    add('"');
    return *this;
  }
  void endLine() {
    add('\n');
    ++lines_;
  }
  std::uint64_t lines() const { return lines_; }
  /// 0, or the error number of the first write that failed.
  int finish() {
    flush();
    return error_;
  }

 private:
  void add(char c) {
    if (used_ == buffer_.size()) flush();
    buffer_[used_++] = c;
  }
  void flush() {
    std::size_t done = 0;
    while (error_ == 0 && done < used_) {
      const ssize_t wrote = ::write(fd_, buffer_.data() + done, used_ - done);
      if (wrote > 0) done += static_cast<std::size_t>(wrote);
      else if (wrote == 0 || errno != EINTR) error_ = wrote == 0 ? EIO : errno;
    }
    used_ = 0;
  }

  const int fd_;
  int error_ = 0;
  std::uint64_t lines_ = 0;
  std::size_t used_ = 0;
  std::array<char, 4096> buffer_;
};

/// Reads exactly this from a memory file.
bool readAt(int fd, std::size_t at, void* to, std::size_t bytes) {
  ssize_t got = 0;
  do got = ::pread(fd, to, bytes, static_cast<off_t>(at));
  while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(bytes);
}

/// Turns ticks into the wall clock's nanoseconds, as that clock is set now.
class TickClock {
 public:
  explicit TickClock(const FileHead& head)
      : ticks_(base::ticks()), now_(readClock(CLOCK_REALTIME)) {
    const std::uint64_t steady = readClock(CLOCK_MONOTONIC);
    const auto ticks = static_cast<double>(ticks_ - head.ticks);
    rate_ = ticks_ > head.ticks && steady > head.nanoseconds
                ? static_cast<double>(steady - head.nanoseconds) / ticks
                : 1;
  }
  std::uint64_t now() const { return now_; }
  std::uint64_t of(std::uint64_t ticks) const {
    if (ticks >= ticks_) return now_;
    const double ago = static_cast<double>(ticks_ - ticks) * rate_;
    return ago < static_cast<double>(now_) ? now_ - static_cast<std::uint64_t>(ago) : 0;
  }

 private:
  std::uint64_t ticks_, now_;
  double rate_ = 1;
};

/// False if the file is not a record of this version. It may claim to have any number of blocks, of
/// which 512 are believed.
bool readFileHead(int fd, FileHead& head) {
  if (!readAt(fd, 0, &head, sizeof(head)) || head.magic != kMagic || head.version != kVersion)
    return false;
  head.blocks = std::min<std::uint32_t>(head.blocks, 512);
  return true;
}

void writeCall(Lines& out, const Record& record, const BlockHead& head, const TickClock& clock) {
  Shape shape;
  if (!Shape::unpack(record.what, shape)) return;
  const bool p2p = shape.collective == Collective::sendrecv;
  out.raw("{\"record_id\":").number(record.number);
  out.raw(p2p ? ",\"p2p_seq_id\":" : ",\"collective_seq_id\":").number(record.sequence);
  out.raw(p2p ? ",\"is_p2p\":true" : ",\"is_p2p\":false").raw(",\"profiling_name\":\"rondo:");
  out.raw(shape.title()).raw(shape.uneven ? "v\"" : "\"");
  if (traits(shape.collective).movesData()) {
    out.raw(",\"count\":").number(record.count);
    out.raw(",\"dtype\":").text(name(shape.type));
  }
  if (reduces(shape.collective))
    out.raw(",\"op\":").text(name(kReduceOps[static_cast<std::size_t>(shape.op)]));
  if (p2p) out.raw(",\"peer\":").number(shape.root);
  if (hasRoot(shape.collective)) out.raw(",\"root\":").number(shape.root);
  if (shape.algorithm < BlockHead::kAlgorithms && !p2p)
    out.raw(",\"algorithm\":").text(head.algorithms[shape.algorithm]);
  const bool failed = record.ended & 1;
  out.raw(",\"state\":\"").raw(record.ended == 0 ? "started" : failed ? "failed" : "completed");
  out.raw("\",\"time_created_ns\":").number(clock.of(record.entered));
  if (record.ended != 0) out.raw(",\"time_completed_ns\":").number(clock.of(record.ended | 1));
  out.raw("}").endLine();
}

void writeHead(Lines& out, const BlockHead& head) {
  out.raw("{\"communicator\":").id(head.communicator).raw(",\"job\":").id(head.job);
  out.raw(",\"rank\":").integer(head.rank).raw(",\"size\":").integer(head.size);
  out.raw(head.state == State::open ? ",\"open\":true" : ",\"open\":false");
  out.raw(",\"transports\":").text(head.transports);
  out.raw(",\"entered\":").number(head.entered).raw(",\"calls\":").number(head.claimed);
  if (head.failure_code[0] != 0) {
    out.raw(",\"failure\":{\"code\":").text(head.failure_code);
    out.raw(",\"culprit\":").integer(head.culprit);
    out.raw(",\"culprit_in_job\":").integer(head.culprit_in_job);
    out.raw(",\"failed_ns\":").number(head.failed);
    out.raw(",\"text\":").text(head.failure).raw("}");
  }
  out.raw(",\"totals\":[");
  bool first = true;
  for (const Collective kind : kCollectives) {
    const auto i = static_cast<std::size_t>(kind);
    if (head.calls[i] == 0) continue;
    out.raw(first ? "{" : ",{").raw("\"collective\":").text(traits(kind).name);
    out.raw(",\"calls\":").number(head.calls[i]).raw(",\"bytes\":").number(head.bytes[i]).raw("}");
    first = false;
  }
  out.raw("],\"waits\":[");
  const std::size_t waits = std::min<std::size_t>(head.waits & 0xff, BlockHead::kWaits);
  for (std::size_t i = 0; i < waits; ++i) {
    const Wait& wait = head.wait[head.waits >> 8 & 1][i];
    out.raw(i > 0 ? ",{" : "{").raw("\"record_id\":").number(wait.number);
    out.raw(",\"peer\":").integer(wait.peer).raw(",\"idle_ns\":").number(wait.since);
    out.raw(",\"text\":").text(wait.text).raw("}");
  }
  out.raw("]}").endLine();
}

/// False if the file ends within the block.
bool writeBlock(Lines& out, int fd, std::size_t block, const TickClock& clock, std::uint64_t last) {
  BlockHead head;
  if (!readAt(fd, blockAt(block), &head, sizeof(head))) return false;
  if (head.state != State::open && head.state != State::closed) return true;
  writeHead(out, head);
  if (head.state == State::closed) {
    if (head.last.number > 0) writeCall(out, head.last, head, clock);
    return true;
  }
  const std::uint64_t capacity = head.capacity;
  // A number of calls that no process reaches would overflow below.
  if (capacity < kFewRecords || capacity > kMostTraced || !std::has_single_bit(capacity) ||
      head.claimed >> 63 != 0)
    return true;
  constexpr std::uint64_t kTogether = kFewRecords;
  std::array<Record, kTogether> some;
  // The record of call 0 does not exist. Rounding down to whole pieces reads calls before the
  // first one that is kept, which the numbers tell.
  std::uint64_t first = head.claimed >= capacity ? head.claimed - capacity + 1 : 0;
  for (first -= first % kTogether; first <= head.claimed; first += kTogether) {
    const std::size_t at = blockAt(block) + kPage + first % capacity * sizeof(Record);
    std::uint64_t claimed = 0;
    // Records that the process gave up before `claimed` was read may be half overwritten.
    if (!readAt(fd, at, some.data(), sizeof(some)) ||
        !readAt(fd, blockAt(block) + offsetof(BlockHead, claimed), &claimed, sizeof(claimed)))
      return false;
    for (std::uint64_t i = 0; i < kTogether; ++i)
      if (some[i].number == first + i && some[i].number > 0 && some[i].number <= head.claimed &&
          some[i].number + capacity > claimed &&
          (some[i].ended == 0 ||
           head.claimed - some[i].number < std::min<std::uint64_t>(last, kMostRecords)))
        writeCall(out, some[i], head, clock);
  }
  return true;
}

/// Set once; afterwards constant.
struct Folder {
  std::atomic<bool> set{false};
  std::atomic<pid_t> process{0}; ///< the last that opened a communicator
  std::atomic<int> number{0}, failures{0}, signals{0};
  std::atomic<int> writing{0};              ///< threads that write dumps
  std::atomic<base::Clock::rep> delayed{0}; ///< how long callers have waited so far
  struct sigaction before {};               ///< of SIGQUIT
  std::array<char, kLongestFolder + 1> name{};
  std::array<char, 64> host{};
};
Folder folder;

/// "FOLDER/rondo-HOST-PROCESS-BEGAN-NUMBER.jsonl", or with ".part" at the end.
class FileName {
 public:
  FileName(std::uint64_t began, int number, std::string_view end) {
    add(folder.name.data());
    add("/rondo-");
    add(folder.host.data());
    add("-");
    add(static_cast<std::uint64_t>(::getpid()));
    add("-");
    add(began);
    add("-");
    add(static_cast<std::uint64_t>(number));
    add(".jsonl");
    add(end);
  }
  const char* get() const { return text_.data(); }

 private:
  void add(std::string_view more) {
    const std::size_t bytes = std::min(more.size(), text_.size() - 1 - used_);
    std::memcpy(&text_[used_], more.data(), bytes);
    used_ += bytes;
  }
  void add(std::uint64_t value) {
    std::array<char, 20> digits{};
    std::size_t at = digits.size();
    do digits[--at] = static_cast<char>('0' + value % 10);
    while (value /= 10);
    add(std::string_view(&digits[at], digits.size() - at));
  }
  std::array<char, kLongestFolder + 256> text_{};
  std::size_t used_ = 0;
};

/// Makes the next file of the folder with what `write` writes to its descriptor. Returns 0, or the
/// error number. A reader of the folder sees whole files only. Async-signal-safe if `write` is.
template <class Write>
int makeFile(const Write& write) {
  const int number = folder.number.fetch_add(1) + 1;
  const std::uint64_t began = beganIn(memoryFile());
  const FileName part(began, number, ".part"), whole(began, number, "");
  const int fd = base::aboveStreams(
      ::open(part.get(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd < 0) return errno;
  int error = write(fd);
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(part.get(), whole.get()) != 0) error = errno;
  if (error != 0) ::unlink(part.get());
  return error;
}

/// Async-signal-safe.
int dumpThisProcess(const char* reason) {
  return makeFile([&](int fd) { return writeDump(memoryFile(), fd, reason, 'R'); });
}

/// Returns 0, or the error number.
int copyWhole(int from, int to) {
  constexpr std::size_t kTogether = std::size_t{1} << 20;
  off_t at = 0;
  for (;;) {
    const ssize_t copied = ::sendfile(to, from, &at, kTogether);
    if (copied == 0) return 0;
    if (copied < 0 && errno != EINTR) return errno;
  }
}

void onSignal(int) {
  const int error = errno;
  if (folder.process.load() != ::getpid()) { // a forked child, which has no record
    ::sigaction(SIGQUIT, &folder.before, nullptr);
    ::raise(SIGQUIT);
    return;
  }
  if (folder.signals.fetch_add(1) < kMostSignals) dumpThisProcess("SIGQUIT");
  errno = error;
}

/// Its destructor, at the end of the process, waits for dumps that are being written.
struct LastDumps {
  ~LastDumps() {
    if (folder.process.load() != ::getpid()) return;
    for (const base::Deadline limit(kLastDumps); folder.writing > 0 && !limit.passed();)
      std::this_thread::sleep_for(kLook);
  }
};

void sayIfLost(int error) {
  if (error != 0)
    base::log(LogLevel::warn, "no dump could be written into ", folder.name.data(), ": ",
              std::strerror(error));
}

/// Writes the dump into memory, because the records of calls may be freed soon, and starts a thread
/// that copies it to a file.
void startWriter() {
  base::UniqueFd dump =
      base::UniqueFd::of([] { return ::memfd_create("rondo-dump", MFD_CLOEXEC); });
  if (!dump) throw std::system_error(errno, std::generic_category());
  if (const int error = writeDump(memoryFile(), dump.get(), "failure", 'R'))
    throw std::system_error(error, std::generic_category());
  const base::NoSignals quiet;
  std::thread writer([made = std::move(dump)] {
    try {
      sayIfLost(makeFile([&](int fd) { return copyWhole(made.get(), fd); }));
    } catch (const std::exception&) { // no memory for the log's line
    }
    --folder.writing;
  });
  ::pthread_setname_np(writer.native_handle(), "rondo-dump");
  writer.detach();
}

void setFolder(const std::string& name) {
  static std::mutex mutex;
  const base::NoFork whole;
  const std::lock_guard lock(mutex);
  if (folder.set.load()) return;
  std::copy(name.begin(), name.end(), folder.name.begin());
  ::gethostname(folder.host.data(), folder.host.size() - 1);
  folder.set.store(true);
  struct sigaction& before = folder.before;
  if (::sigaction(SIGQUIT, nullptr, &before) != 0 || (before.sa_flags & SA_SIGINFO) != 0 ||
      (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN))
    return;
  struct sigaction ours {};
  ours.sa_handler = &onSignal;
  ours.sa_flags = SA_RESTART;
  ::sigaction(SIGQUIT, &ours, nullptr);
}

} // namespace

int writeDump(int memory_file, int to, const char* reason, char state, std::uint64_t last,
              std::string_view more) {
  FileHead head;
  if (!readFileHead(memory_file, head)) return EPROTO;
  const TickClock clock(head);
  Lines out(to);
  out.raw("{\"rondo_dump\":").integer(kDumpVersion).raw(",").raw(more);
  out.raw("\"host\":").text(head.host);
  out.raw(",\"pid\":").number(head.process).raw(",\"began_ns\":").number(head.nanoseconds);
  out.raw(",\"reason\":").text(reason);
  out.raw(",\"state\":").text(std::string_view(&state, 1));
  out.raw(",\"time_ns\":").number(clock.now()).raw("}").endLine();
  for (std::size_t block = 0; block < head.blocks; ++block)
    if (!writeBlock(out, memory_file, block, clock, last)) break;
  out.raw("{\"end\":true,\"lines\":").number(out.lines() + 1).raw("}").endLine();
  return out.finish();
}

std::uint64_t beganIn(int memory_file) {
  FileHead head;
  return readFileHead(memory_file, head) ? head.nanoseconds : 0;
}

std::set<std::uint64_t> jobsIn(int memory_file) {
  std::set<std::uint64_t> jobs;
  FileHead head;
  if (!readFileHead(memory_file, head)) return jobs;
  BlockHead block;
  for (std::size_t i = 0; i < head.blocks; ++i) {
    if (!readAt(memory_file, blockAt(i), &block, offsetof(BlockHead, claimed))) break;
    if (block.state == State::open || block.state == State::closed) jobs.insert(block.job);
  }
  return jobs;
}

void dumpInto(const std::string& name) {
  if (name.empty()) return;
  if (folder.process.exchange(::getpid()) != ::getpid()) { // a forked child has its own dumps
    folder.writing = folder.failures = 0;
    folder.delayed = 0;
  }
  if (folder.set.load()) return;
  // Before the lock: a network file system may answer late.
  std::error_code none;
  const std::string whole_name = std::filesystem::absolute(name, none).string();
  int error = whole_name.size() > kLongestFolder ? ENAMETOOLONG : none.value();
  if (error == 0 && ::mkdir(whole_name.c_str(), 0700) != 0 && errno != EEXIST) error = errno;
  if (error == 0 && ::access(whole_name.c_str(), W_OK | X_OK) != 0) error = errno;
  if (error != 0)
    base::log(LogLevel::warn, "RONDO_DUMP: dumps cannot be written into ", name, ": ",
              std::strerror(error));
  if (whole_name.empty() || whole_name.size() > kLongestFolder) return;
  setFolder(whole_name);
}

void dumpFailure(std::chrono::milliseconds delay) {
  if (!folder.set.load() || folder.failures.fetch_add(1) >= kMostFailures) return;
  {
    const base::NoFork whole;
    static const LastDumps last;
  }
  ++folder.writing;
  try {
    startWriter();
  } catch (const std::exception&) { // no memory, or no more threads
    --folder.writing;
    return sayIfLost(dumpThisProcess("failure"));
  }
  // A program may abort as soon as it gets the failure.
  const auto begin = base::Clock::now();
  const base::Clock::duration before(folder.delayed.load());
  const auto end = begin + std::min<base::Clock::duration>(delay, kLongestDelay - before);
  while (folder.writing > 0 && base::Clock::now() < end) std::this_thread::sleep_for(kLook);
  folder.delayed += (base::Clock::now() - begin).count();
}

} // namespace rondo::observe
