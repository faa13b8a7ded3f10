// Hands calls over from the threads that make them to the one that writes them.
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
#include "base/inherited_thread.h"
#include "base/log.h"
#include "base/no_signals.h"
#include "base/ticks.h"

namespace rondo::observe {

namespace {

/// Calls that wait to be written, of the rank's first communicator and of each further one.
constexpr std::uint64_t kFirstRing = 1 << 15, kFurtherRing = 1 << 12;
/// Calls that are written at once.
constexpr std::uint64_t kTogether = 1024;
constexpr std::size_t kMostSpans = 16384;
constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
constexpr std::chrono::milliseconds kNap{250};
/// Lanes of a communicator: further calls in flight share the last one.
constexpr std::uint32_t kLanes = 100;

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

/// A communicator of the rank, and its calls that wait to be written: a ring that the communicator
/// fills and the writing thread empties, without a lock. A thread of the lowest priority may stand
/// still for long while it holds a lock.
struct Trace::Source {
  Source(int its_number, Identity who, std::uint64_t ring_capacity)
      : number(its_number),
        identity(std::move(who)),
        capacity(ring_capacity),
        ring(ring_capacity) {}

  const int number; ///< in the rank's trace
  const Identity identity;
  const std::uint64_t capacity; ///< a power of two
  /// Record::number is the call's lane. Written now, so that no call pays for a page fault.
  std::vector<Record> ring;
  alignas(64) std::atomic<std::uint64_t> put{0}; ///< calls; those before it are complete
  std::atomic<std::uint64_t> left_out{0};
  std::atomic<bool> closed{false};
  alignas(64) std::atomic<std::uint64_t> taken{0}; ///< calls that have been written
  std::vector<std::string> algorithms;             ///< guarded by the trace's mutex
  // Only the thread that writes.
  std::vector<std::string> known; ///< names of algorithms
  std::uint32_t named = 0;        ///< lanes with a name
};

/// Puts the calls of one communicator into its ring.
class Trace::Calls final : public CallListener {
 public:
  Calls(std::shared_ptr<Trace> trace, const Recorder& recorder)
      : recorder_(recorder),
        trace_(std::move(trace)),
        source_(trace_->newSource(recorder.identity())) {}
  ~Calls() override {
    if (!trace_->maker_.elsewhere()) source_->closed.store(true, std::memory_order_release);
  }

  void begun(const Record& /*call*/, std::size_t /*lane*/) override {}
  void ended(const Record& call, std::size_t lane) override {
    const auto algorithm = static_cast<std::uint8_t>(call.what >> 32);
    if (algorithm >= known_) learn(algorithm);
    Source& to = *source_;
    const std::uint64_t at = to.put.load(std::memory_order_relaxed);
    if (at - taken_ == to.capacity) {
      taken_ = to.taken.load(std::memory_order_acquire);
      if (at - taken_ == to.capacity) {
        to.left_out.fetch_add(1, std::memory_order_relaxed);
        return;
      }
    }
    Record& slot = to.ring[at & (to.capacity - 1)];
    slot = call;
    slot.number = lane;
    to.put.store(at + 1, std::memory_order_release);
    if (((at + 1) & (to.capacity / 2 - 1)) == 0) trace_->wake();
  }
  void waits(const Record& /*call*/, std::size_t lane, int peer, const std::string& text) override {
    const std::lock_guard lock(trace_->mutex_);
    if (trace_->stopping_ || trace_->marks_.size() >= kMostSpans) return;
    trace_->marks_.push_back(
        {source_, static_cast<std::uint32_t>(lane), peer, base::ticks(), text});
  }

 private:
  void learn(std::uint8_t algorithm) {
    const std::lock_guard lock(trace_->mutex_);
    for (; known_ <= algorithm; ++known_)
      source_->algorithms.emplace_back(recorder_.algorithmName(static_cast<std::uint8_t>(known_)));
  }

  const Recorder& recorder_;
  const std::shared_ptr<Trace> trace_;
  const std::shared_ptr<Source> source_;
  std::uint64_t taken_ = 0; ///< Source::taken as ended() last read it
  std::size_t known_ = 0;   ///< algorithms whose names the source has
};

struct Trace::Look {
  struct Part {
    std::shared_ptr<Source> source;
    bool closed;
    std::uint64_t put;
  };
  std::vector<Part> parts;
  std::vector<TraceSpan> spans;
  std::vector<Mark> marks;
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
  const std::shared_ptr<Trace> trace(new Trace(folder, first));
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

std::unique_ptr<CallListener> Trace::listener(const std::shared_ptr<Trace>& trace,
                                              const Recorder& recorder) {
  return std::make_unique<Calls>(trace, recorder);
}

void Trace::add(const TraceSpan& span) {
  if (maker_.elsewhere() || stopping_) return;
  const std::lock_guard lock(mutex_);
  if (spans_.size() < kMostSpans) spans_.push_back(span);
  else ++left_out_;
}

std::shared_ptr<Trace::Source> Trace::newSource(const Identity& identity) {
  const std::lock_guard lock(mutex_);
  if (!threaded_) // nobody empties the rings of communicators that are gone: their calls are lost
    std::erase_if(live_, [this](const auto& source) {
      if (!source->closed.load(std::memory_order_acquire)) return false;
      left_out_ += source->put.load() - source->taken.load() + source->left_out.load();
      return true;
    });
  const int number = sources_++;
  live_.push_back(
      std::make_shared<Source>(number, identity, number == 0 ? kFirstRing : kFurtherRing));
  return live_.back();
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
  const Look look = this->look();
  if (const auto [ticks, now] = readBoth(); ticks > ticks_)
    nanoseconds_per_tick_ =
        static_cast<double>(now - monotonic_) / static_cast<double>(ticks - ticks_);
  for (const auto& [source, closed, put] : look.parts) {
    take(*source, put, all);
    if (!closed || (!all && stopping_)) continue;
    lost_ += source->left_out.exchange(0);
    const std::lock_guard lock(mutex_);
    std::erase(live_, source);
  }
  for (const TraceSpan& span : look.spans) format(span);
  for (const Mark& mark : look.marks) format(mark);
  flush();
}

Trace::Look Trace::look() {
  Look now;
  const std::lock_guard lock(mutex_);
  for (const auto& source : live_) {
    const bool closed = source->closed.load(std::memory_order_acquire); // first: `put` is its last
    now.parts.push_back({source, closed, source->put.load(std::memory_order_acquire)});
  }
  now.spans.swap(spans_);
  now.marks.swap(marks_);
  return now;
}

void Trace::take(Source& source, std::uint64_t put, bool all) {
  std::uint64_t at = source.taken.load(std::memory_order_relaxed);
  if (at == put) return;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = source.known.size(); i < source.algorithms.size(); ++i)
      source.known.push_back(source.algorithms[i]);
  }
  while (at < put && (all || !stopping_)) {
    for (const std::uint64_t end = std::min(put, at + kTogether); at < end; ++at)
      format(source, source.ring[at & (source.capacity - 1)]);
    source.taken.store(at, std::memory_order_release);
    flush();
  }
}

void Trace::finish() {
  if (maker_.elsewhere()) {
    if (thread_.joinable()) base::forget(thread_);
    return;
  }
  if (stopping_.exchange(true)) return;
  wake();
  if (thread_.joinable()) thread_.join();
  drain(true);
  std::uint64_t left_out = lost_;
  {
    const std::lock_guard lock(mutex_);
    left_out += left_out_;
    for (const auto& source : live_) left_out += source->left_out.load();
  }
  base::TraceArguments facts;
  facts.add("calls", calls_).add("left_out", left_out);
  if (left_out > 0 && !ended_)
    base::log(LogLevel::warn, path_, ": ", left_out,
              " calls are missing: they came faster than they could be written");
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

void Trace::format(Source& source, const Record& record) {
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
  if (!p2p && shape.algorithm < source.known.size())
    facts.addIfAny("algorithm", source.known[shape.algorithm]);
  if (record.ended & 1) facts.add("failed", 1);
  const double begin = timeOf(record.entered);
  const std::string title = std::string(shape.title()) + (shape.uneven ? "v" : "");
  const int lane = nameLane(source, static_cast<std::uint32_t>(record.number));
  events_.span(rank_, lane, title, "call", begin, std::max(timeOf(record.ended) - begin, 0.0),
               facts);
  ++unwritten_;
}

void Trace::format(const Mark& mark) {
  events_.mark(rank_, nameLane(*mark.source, mark.lane),
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
