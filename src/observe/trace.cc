// The thread that reads the records of the rank's communicators and writes its trace.
#include "observe/trace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/futex.h"
#include "base/log.h"
#include "base/no_signals.h"
#include "base/ticks.h"
#include "observe/memory.h"

namespace rondo::observe {

namespace {

/// Calls that are written at once.
constexpr std::uint64_t kTogether = 1024;
constexpr std::size_t kMostSpans = 16384;
constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
constexpr std::chrono::milliseconds kNap{250};
/// Lanes of a communicator: further calls in flight share the last one.
constexpr std::uint32_t kLanes = 100;
/// Closed communicators whose records are not read yet: so many wake the thread.
constexpr std::ptrdiff_t kManyClosed = 32;

std::int64_t readClock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// The time-stamp counter and CLOCK_MONOTONIC at the same moment. A thread of low priority is often
/// interrupted between two reads; the pair with the least time between its reads counts.
std::pair<std::uint64_t, std::int64_t> readBoth() {
  std::pair<std::uint64_t, std::int64_t> best;
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t before = base::ticks();
    const std::int64_t now = readClock(CLOCK_MONOTONIC);
    const std::uint64_t passed = base::ticks() - before;
    if (passed < least) least = passed, best = {before + passed / 2, now};
  }
  return best;
}

std::string hexadecimal(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// The traces of this process that have not ended: programs may exit without closing their
/// communicators. Never destroyed.
struct Open {
  static Open& ofProcess() {
    static Open& instance = *new Open;
    return instance;
  }
  std::mutex mutex;
  std::vector<std::weak_ptr<Trace>> all;
  bool at_exit = false;
};

} // namespace

/// A communicator of the rank.
struct Trace::Source {
  Source(int its_number, Identity who, const Recorder& recorder)
      : number(its_number),
        identity(std::move(who)),
        follower(recorder.block(), recorder.calls() + 1) {}

  const int number; ///< in the rank's trace
  const Identity identity;
  std::atomic<bool> closed{false};
  bool reading = false; ///< in the current pass; guarded by Trace::mutex_
  // Only the thread that writes.
  Follower follower;
  std::vector<Mark> marks; ///< of calls that have no lane yet
  std::uint32_t named = 0; ///< lanes with a name
};

/// What the recorder of one communicator tells the trace.
class Trace::Reader final : public RecordReader {
 public:
  Reader(std::shared_ptr<Trace> trace, const Recorder& recorder)
      : trace_(std::move(trace)), source_(trace_->newSource(recorder)) {}
  ~Reader() override {
    if (trace_->maker_.elsewhere()) return;
    source_->closed.store(true, std::memory_order_release);
    trace_->release();
  }

  void filled() override { trace_->wake(); }
  void waits(std::uint64_t number, int peer, const std::string& text) override {
    const std::lock_guard lock(trace_->mutex_);
    if (trace_->stopping_ || trace_->marks_.size() >= kMostSpans) return;
    trace_->marks_.push_back({source_, number, peer, base::ticks(), text});
  }

 private:
  const std::shared_ptr<Trace> trace_;
  const std::shared_ptr<Source> source_;
};

struct Trace::Look {
  struct Part {
    std::shared_ptr<Source> source; ///< null: closed, and written out
    bool closed;
  };
  std::vector<Part> parts;
  std::vector<TraceSpan> spans;
};

Trace::Trace(const std::string& folder, Identity first)
    : first_(std::move(first)), rank_(first_.rank) {
  char number[16];
  std::snprintf(number, sizeof(number), "%05d", rank_);
  path_ = folder + "/rondo-trace-" + hexadecimal(first_.job) + "-" +
          hexadecimal(first_.communicator) + "-" + number + ".json";
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST)
    file_ = base::UniqueFd::of([&] {
      return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                    0600);
    });
  if (!file_)
    base::log(LogLevel::warn, "RONDO_TRACE: no trace can be written to ", path_, ": ",
              std::strerror(errno));
}

std::shared_ptr<Trace> Trace::open(const std::string& folder, const Identity& first) {
  // A forked child keeps its copy: the parent's thread may have been in the middle of a change.
  const std::shared_ptr<Trace> trace(new Trace(folder, first), [](Trace* ended) {
    if (!ended->maker_.elsewhere()) delete ended;
  });
  const base::NoFork whole;
  Open& open = Open::ofProcess();
  const std::lock_guard lock(open.mutex);
  std::erase_if(open.all, [](const auto& one) { return one.expired(); });
  open.all.push_back(trace);
  if (!std::exchange(open.at_exit, true)) std::atexit(&finishAll);
  return trace;
}

void Trace::finishAll() {
  std::vector<std::shared_ptr<Trace>> all;
  {
    Open& open = Open::ofProcess();
    const base::NoFork whole;
    const std::lock_guard lock(open.mutex);
    for (const auto& one : open.all)
      if (auto trace = one.lock()) all.push_back(std::move(trace));
  }
  for (const auto& trace : all) trace->finish();
}

Trace::~Trace() { finish(); }

void Trace::begin(const ClockOffset& clock) {
  if (!file_) return;
  clock_ = clock;
  std::tie(ticks_, monotonic_) = readBoth();
  char host[64] = {};
  ::gethostname(host, sizeof(host) - 1);
  events_.nameRank(rank_, "rank " + std::to_string(rank_) + ", " + host);
  base::TraceArguments facts;
  facts.add("version", 1)
      .add("job", hexadecimal(first_.job))
      .add("communicator", hexadecimal(first_.communicator))
      .add("rank", rank_)
      .add("size", first_.size)
      .add("host", host);
  facts.add("unix_ns", clock.unix_ns).add("clock_offset_ns", clock.add);
  if (clock.error >= 0) facts.add("clock_error_ns", clock.error);
  else facts.add("clock", "the clocks of the machines were not compared");
  events_.about(rank_, "rondo trace", facts);
  write("[");
  flush();
  stopping_ = false;
  const base::NoSignals quiet;
  try {
    thread_ = std::thread([this] { main(); });
    threaded_ = true;
  } catch (const std::system_error& none) { // all is written at the end, as far as it fits
    base::log(LogLevel::info, "the trace has no thread: ", none.what());
  }
}

void Trace::follow(const std::shared_ptr<Trace>& trace, Recorder& recorder) {
  if (recorder.block()) recorder.keepFor(std::make_unique<Reader>(trace, recorder));
  else if (!trace->told_.exchange(true))
    base::log(LogLevel::warn, trace->path_, ": a communicator is not traced, because there is no ",
              "memory for its record of calls; RONDO_DEBUG=info says why");
}

void Trace::add(const TraceSpan& span) {
  if (maker_.elsewhere() || stopping_) return;
  const std::lock_guard lock(mutex_);
  if (spans_.size() < kMostSpans) spans_.push_back(span);
  else ++left_out_;
}

std::shared_ptr<Trace::Source> Trace::newSource(const Recorder& recorder) {
  release();
  const std::lock_guard lock(mutex_);
  const auto closed = [](const std::shared_ptr<Source>& source) {
    return source->closed.load(std::memory_order_acquire);
  };
  if (std::count_if(live_.begin(), live_.end(), closed) >= kManyClosed) wake();
  // Without a thread no record is read before the end.
  while (!threaded_ || Block::scarce()) {
    const auto oldest = std::find_if(live_.begin(), live_.end(), [&](const auto& source) {
      return closed(source) && !source->reading;
    });
    if (oldest == live_.end()) break;
    left_out_ += (*oldest)->follower.unread();
    std::erase_if(marks_, [&](const Mark& mark) { return mark.source == *oldest; });
    live_.erase(oldest);
  }
  live_.push_back(std::make_shared<Source>(sources_++, recorder.identity(), recorder));
  return live_.back();
}

/// Frees the records that have been read, unless it would have to wait.
void Trace::release() {
  std::vector<std::shared_ptr<Source>> gone;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) gone.swap(written_out_);
}

void Trace::wake() {
  word_.fetch_add(1);
  base::futexWake(word_);
}

void Trace::main() {
  sched_param lowest{};
  ::sched_setscheduler(0, SCHED_IDLE, &lowest); // of this thread
  while (!stopping_) {
    const std::uint32_t word = word_.load();
    drain(false);
    if (!stopping_) base::futexWait(word_, word, kNap);
  }
}

/// Writes what waits. Without `all` it stops early when the trace ends, so that the thread that
/// ends it does not wait for one of the lowest priority.
void Trace::drain(bool all) {
  Look look = this->look();
  for (auto& [source, closed] : look.parts) {
    take(*source, all);
    if (!closed || (stopping_ && !all)) continue;
    const std::lock_guard lock(mutex_);
    std::erase(live_, source);
    written_out_.push_back(std::move(source));
  }
  for (const TraceSpan& span : look.spans) format(span);
  flush();
  const std::lock_guard lock(mutex_);
  for (auto& [source, closed] : look.parts)
    if (source) source->reading = false;
  look.parts.clear(); // now, while live_ has them too: this thread must not free a record
}

Trace::Look Trace::look() {
  Look now;
  const std::lock_guard lock(mutex_);
  for (const auto& source : live_) {
    source->reading = true;
    now.parts.push_back({source, source->closed.load(std::memory_order_acquire)});
  }
  now.spans.swap(spans_);
  for (Mark& mark : marks_) {
    Source& of = *mark.source;
    mark.source.reset(); // or it would own itself
    of.marks.push_back(std::move(mark));
  }
  marks_.clear();
  return now;
}

void Trace::take(Source& source, bool all) {
  const std::uint64_t last = source.follower.last();
  // Nothing later is read in this pass, so the rate holds for all of it.
  const auto [ticks, now] = readBoth();
  if (ticks > ticks_)
    nanoseconds_per_tick_ =
        static_cast<double>(now - monotonic_) / static_cast<double>(ticks - ticks_);
  std::vector<Follower::Call> ended;
  for (bool more = true; more && (all || !stopping_);) {
    more = source.follower.read(last, ticks, ended);
    for (const Follower::Call& call : ended) format(source, call);
    ended.clear();
    if (unwritten_ >= kTogether) flush();
  }
  lost_ += source.follower.takeMissed();
  if (stopping_ && !all) return;
  for (const Mark& mark : source.marks) format(source, mark, source.follower.laneOf(mark.call));
  source.marks.clear();
}

void Trace::finish() {
  if (maker_.elsewhere() || stopping_.exchange(true)) return;
  wake();
  if (thread_.joinable()) thread_.join();
  drain(true);
  std::uint64_t left_out = lost_;
  {
    const std::lock_guard lock(mutex_);
    left_out += left_out_;
  }
  base::TraceArguments facts;
  facts.add("calls", calls_).add("left_out", left_out);
  if (left_out > 0 && !ended_)
    base::log(LogLevel::warn, path_, ": ", left_out,
              " calls or spans are not in the trace: its thread did not read them in time");
  events_.about(rank_, "end of rondo trace", facts);
  write(events_.take() + "\n]\n");
}

double Trace::timeOf(std::uint64_t ticks) const {
  const auto passed = static_cast<double>(static_cast<std::int64_t>(ticks - ticks_));
  return static_cast<double>(monotonic_ + clock_.add) + passed * nanoseconds_per_tick_;
}

/// The lane's number in the file. Names it before its first use.
int Trace::nameLane(Source& source, std::uint32_t lane) {
  lane = std::min(lane, kLanes - 1);
  const auto first = (static_cast<std::uint32_t>(source.number) + 1) * kLanes;
  for (; source.named <= lane; ++source.named) {
    const Identity& who = source.identity;
    std::string name = "communicator " + hexadecimal(who.communicator).substr(0, 8) + ": rank " +
                       std::to_string(who.rank) + " of " + std::to_string(who.size) + ", " +
                       who.transports;
    if (source.named > 0) name += " (" + std::to_string(source.named + 1) + ")";
    events_.nameLane(rank_, static_cast<int>(first + source.named), name);
  }
  return static_cast<int>(first + lane);
}

void Trace::format(Source& source, const Follower::Call& call) {
  const Record& record = call.record;
  Shape shape;
  if (!Shape::unpack(record.what, shape)) return;
  base::TraceArguments facts;
  facts.add("sequence", record.sequence);
  const bool p2p = shape.collective == Collective::sendrecv;
  if (traits(shape.collective).movesData()) {
    facts.add("count", record.count).add("type", name(shape.type));
    facts.add("bytes", record.count * sizeOf(shape.type));
  }
  if (reduces(shape.collective))
    facts.add("op", name(kReduceOps[static_cast<std::size_t>(shape.op)]));
  if (p2p) facts.add("peer", shape.root);
  if (hasRoot(shape.collective)) facts.add("root", shape.root);
  if (!p2p) facts.addIfAny("algorithm", source.follower.algorithm(shape.algorithm));
  if (record.ended & 1) facts.add("failed", 1);
  const double begin = timeOf(record.entered);
  const std::string title = std::string(shape.title()) + (shape.uneven ? "v" : "");
  events_.span(rank_, nameLane(source, call.lane), title, "call", begin,
               std::max(timeOf(record.ended) - begin, 0.0), facts);
  ++unwritten_;
  std::erase_if(source.marks, [&](const Mark& mark) {
    if (mark.call != record.number) return false;
    format(source, mark, call.lane);
    return true;
  });
}

void Trace::format(Source& source, const Mark& mark, std::uint32_t lane) {
  events_.mark(rank_, nameLane(source, lane),
               mark.peer < 0 ? "no progress" : "waits for rank " + std::to_string(mark.peer),
               timeOf(mark.ticks), base::TraceArguments().addIfAny("at", mark.text));
}

void Trace::format(const TraceSpan& span) {
  if (lanes_.size() >= kLanes - 1 && !lanes_.contains(span.lane)) return;
  const auto [lane, fresh] = lanes_.emplace(span.lane, static_cast<int>(lanes_.size()) + 1);
  if (fresh) events_.nameLane(rank_, lane->second, span.lane);
  base::TraceArguments facts;
  if (span.step >= 0) facts.add("step", span.step);
  if (span.bytes > 0) facts.add("bytes", span.bytes);
  const auto at = [](std::chrono::steady_clock::time_point time) {
    return static_cast<double>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  };
  events_.span(rank_, lane->second, span.name, "program",
               at(span.begin) + static_cast<double>(clock_.add),
               std::max(at(span.end) - at(span.begin), 0.0), facts);
}

void Trace::flush() {
  const std::string text = events_.take();
  const std::uint64_t calls = std::exchange(unwritten_, 0);
  const int error = ended_ ? EFBIG : write(text);
  (error == 0 ? calls_ : lost_) += calls;
  if (ended_ || error == 0) return;
  ended_ = true;
  // So that it ends with a whole line. It stays readable if the last lines do not fit.
  const bool cut = ::ftruncate(file_.get(), static_cast<off_t>(written_)) == 0;
  base::log(LogLevel::warn, "the trace ", path_, " ends here, and the job goes on: ",
            error == EDQUOT || error == EFBIG ? "it may not grow" : std::strerror(error),
            cut ? "" : "; its last line is broken");
}

/// Returns 0, or the error number.
int Trace::write(const std::string& text) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit); // to exceed it would be a signal that ends the process
  if (written_ + text.size() > std::min<rlim_t>(limit.rlim_cur, kMostBytes)) return EFBIG;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(file_.get(), text.data() + done, text.size() - done);
    if (wrote > 0) done += static_cast<std::size_t>(wrote);
    else if (wrote == 0 || errno != EINTR) return wrote == 0 ? EIO : errno;
  }
  written_ += done;
  return 0;
}

} // namespace rondo::observe
