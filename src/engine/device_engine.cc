// Launches bound plans, follows the launches, and handles their failures.
#include "engine/device_engine.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/device_program.h"
#include "engine/device_tuning.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {

/// Time between two polls of connections, and of launches that must end.
constexpr std::chrono::microseconds kLook{50};
/// Time limit for a launch that was told to end, including the work of its stream before it.
constexpr std::chrono::seconds kEnding{5};
/// A kernel's own deadline passes this much earlier than the host's: the kernel can report where it
/// waited.
constexpr std::chrono::milliseconds kGrace{1000};

device::Panel& panelIn(const device::Memory& memory) {
  return *reinterpret_cast<device::Panel*>(memory.get());
}

void abort(device::Panel& panel) {
  std::atomic_ref(panel.abort).store(1, std::memory_order_release);
}

/// Keeps memory until the program ends; it stays reachable, so the leak sanitizer does not report
/// it.
void keep(const std::vector<std::shared_ptr<const void>>& memory) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  kept->insert(kept->end(), memory.begin(), memory.end());
}

/// The bits of a signature that hold the sequence number. A launch's signature has none, see
/// Launch::signature.
constexpr std::uint64_t kSequenceBits = std::uint64_t{0xff} << 32;

} // namespace

DeviceEngine::DeviceEngine(std::shared_ptr<device::Device> device, Fabric& fabric,
                           const Settings& settings)
    : Engine(true),
      device_(std::move(device)),
      fabric_(fabric),
      settings_(settings),
      panel_(device_->allocateHost(sizeof(device::Panel))),
      halt_(device_->allocate(sizeof(device::Halt))),
      programs_(*device_, kProgramBytes),
      layout_(settings.rank, settings.ranks, settings.residency, settings.channel.copies),
      proxy_(device_, settings.channel.simple) {
  fabric.putSelfOnDevice([on = device_, inbox = settings.channel.inboxBytes(),
                          credit = settings.channel.creditBytes()] {
    return transport::DeviceMemory{on->allocate(inbox), on->allocate(credit), inbox};
  });
  if (settings_.roster) seat_ = settings_.roster->sit(panel_);
}

DeviceEngine::~DeviceEngine() {
  if (settings_.users) settings_.users->giveUp(stream_, settings_.rank);
  endLaunches();
  if (seat_) settings_.roster->leave(seat_);
  const bool well =
      std::atomic_ref(panel().abort).load() == 0 && std::atomic_ref(panel().ended).load() == 0;
  if (well && !proxy_.drain(base::Deadline(settings_.timeout), *settings_.failed))
    base::log(LogLevel::error, "dropped a communicator before its last messages were sent");
}

void DeviceEngine::endLaunches() {
  for (InFlight& flight : runs_)
    if (flight.mark) given_up_.push_back(std::move(flight));
  if (given_up_.empty()) return;
  abortLaunches();
  const base::Deadline deadline(kEnding);
  try {
    for (const InFlight& flight : given_up_)
      while (!flight.mark->passed()) {
        if (deadline.passed())
          throw Error(ErrorCode::timeout, "a launch does not end: other work blocks its stream");
        std::this_thread::sleep_for(kLook);
      }
  } catch (const Error& error) {
    base::log(LogLevel::error, "failed to end the launches of a communicator: ", error.what());
    // After any other error of the device, nothing runs on it any more.
    if (error.code() == ErrorCode::timeout) keepMemory();
  }
}

/// Keeps all memory that launches of this rank use, except the program's own buffers.
void DeviceEngine::keepMemory() const {
  const DeviceWindow& window = settings_.window;
  std::vector<std::shared_ptr<const void>> all = {
      panel_, halt_, window.memory.own, window.memory.all, window.all, window.meetings};
  all.insert(all.end(), slabs_.begin(), slabs_.end());
  for (const device::Memory& memory : programs_.memory()) all.push_back(memory);
  for (const InFlight& flight : given_up_) all.push_back(flight.place);
  for (const auto& [end, position] : positions_)
    for (const auto& memory : {end->deviceMemory().inbox, end->deviceMemory().credit})
      all.push_back(memory);
  keep(all);
}

device::Panel& DeviceEngine::panel() const { return panelIn(panel_); }

void DeviceEngine::abortLaunches() { abort(panel()); }

/// Ends the launches of other ranks, which may write into this rank's memory. Launches that run now
/// end, and later work on the streams of this rank's calls waits for that. Launches that start
/// later see the abort flag first and do not write.
void DeviceEngine::endOthers() {
  if (!seat_) return;
  std::vector<std::shared_ptr<LaunchRoster::Seat>> others = settings_.roster->seats();
  std::erase(others, seat_);
  // The panels first, without the seats' mutexes: a rank that is blocked in a launch holds its own.
  for (const auto& seat : others) abort(panelIn(seat->panel));
  std::set<device::Stream> streams;
  for (const InFlight& flight : runs_)
    if (flight.mark) streams.insert(flight.stream);
  for (const auto& seat : others) {
    std::unique_lock lock(seat->mutex);
    const std::shared_ptr<device::Mark> last = seat->last;
    lock.unlock();
    if (last)
      for (const device::Stream stream : streams) followOther(stream, *last);
  }
}

void DeviceEngine::followOther(device::Stream stream, const device::Mark& last) {
  try {
    if (device_->capture(stream) == 0) device_->follow(stream, last);
  } catch (const Error& error) {
    base::log(LogLevel::error, "cannot wait for another rank's launch: ", error.what());
  }
}

void DeviceEngine::setStream(Stream of_program) {
  const device::Stream stream = of_program.handle();
  if (stream == stream_) return; // admitBuffers() completes the traits
  const device::StreamTraits traits = traitsOf(stream);
  if (settings_.users) {
    const int other = traits.blocking ? -1 : settings_.users->claim(stream, settings_.rank);
    if (other >= 0)
      throw Error(ErrorCode::invalid_argument,
                  "rank " + std::to_string(other) +
                      " of this process uses the same stream, so one would wait for the other: "
                      "give each a stream of its own (setStream)");
    settings_.users->giveUp(stream_, settings_.rank);
  }
  stream_ = stream;
  traits_ = traits;
}

device::StreamTraits DeviceEngine::traitsOf(device::Stream stream) const {
  const device::StreamTraits traits = device_->traits(stream);
  if (traits.multiprocessors < device_->multiprocessors())
    throw Error(ErrorCode::unsupported,
                "the stream may use " + std::to_string(traits.multiprocessors) + " of " +
                    std::to_string(device_->multiprocessors()) +
                    " multiprocessors: kernels that wait for each other may need all of them");
  return traits;
}

void DeviceEngine::requireHostBuffers(const char* function) const {
  throw Error(ErrorCode::unsupported, std::string(function) +
                                          ": the buffers of this communicator are in device "
                                          "memory, which peers always read in place");
}

void DeviceEngine::admitBuffers(const void* input, const void* output) const {
  if (traits_.captured) traits_ = traitsOf(stream_);
  if (traits_.blocking && settings_.neighbour >= 0)
    throw Error(
        ErrorCode::invalid_argument,
        "rank " + std::to_string(settings_.neighbour) +
            " of this process uses the same device, and both would use its default stream or "
            "streams that wait for it: give each a stream of its own, made with "
            "cudaStreamNonBlocking "
            "(setStream)");
  for (const void* buffer : {input, output})
    if (buffer && !device_->sees(buffer))
      throw Error(ErrorCode::invalid_argument,
                  std::string(buffer == input ? "input" : "output") +
                      " is not memory that the device of this communicator can use");
}

void DeviceEngine::admitFactor(const void* factor) const {
  if (!device_->sees(factor))
    throw Error(ErrorCode::invalid_argument,
                "the operator's factor is not in memory that the device of this communicator can "
                "use");
}

// Running -----------------------------------------------------------------------------------------

void DeviceEngine::submit(Run& run, int queue) {
  ++run.plan->users;
  begin();
  if (queue != kCollectives) {
    noted_.push_back({layout_.next(queue), &run});
    if (std::find(noted_streams_.begin(), noted_streams_.end(), stream_) == noted_streams_.end())
      noted_streams_.push_back(stream_);
    return;
  }
  putInFlight(run);
  enqueue(runs_.size() - 1, [&] { launch(run); });
}

void DeviceEngine::launchNoted() {
  if (noted_.empty()) return;
  std::sort(noted_.begin(), noted_.end(),
            [](const Noted& a, const Noted& b) { return a.seat < b.seat; });
  orderStreams(true);
  for (auto next = noted_.cbegin(); next != noted_.cend();) next = launchBatch(next);
  orderStreams(false);
  noted_.clear();
  noted_streams_.clear();
  layout_.clear();
}

/// The noted runs were submitted with several streams, but are launched on one. `before` the
/// launch, that stream waits for the others; after it, they wait for that stream.
void DeviceEngine::orderStreams(bool before) {
  if (broken_) return;
  try {
    for (const device::Stream other : noted_streams_) {
      if (other == stream_) continue;
      const auto mark = device_->mark();
      mark->record(before ? other : stream_);
      device_->follow(before ? stream_ : other, *mark);
    }
  } catch (...) {
    broken_ = std::current_exception(); // as in enqueue()
  }
}

/// Launches the noted runs of one launch, starting at `at`. Returns the start of the next launch.
std::vector<DeviceEngine::Noted>::const_iterator DeviceEngine::launchBatch(
    std::vector<Noted>::const_iterator at) {
  const std::size_t first = runs_.size();
  const std::uint32_t launch = at->seat.launch;
  device::Batch batch;
  std::uint16_t jobs = 0;
  for (std::optional<std::uint32_t> lane; at != noted_.cend() && at->seat.launch == launch; ++at) {
    if (lane != at->seat.lane) batch.first[batch.lanes++] = jobs;
    lane = at->seat.lane;
    Run& run = *at->run;
    batch.jobs[jobs].buffer = run.output ? run.output : const_cast<std::byte*>(run.input);
    batch.copies = std::max(batch.copies, run.plan->device->launch.program.copies);
    putInFlight(run);
    runs_.back().job = jobs++;
  }
  batch.first[batch.lanes] = jobs;
  batch.number = static_cast<std::uint32_t>(++numbers_);
  enqueue(first, [&] {
    for (std::size_t j = 0; j < jobs; ++j)
      batch.jobs[j].launch = runs_[first + j].run->plan->device->job;
    batches_->launch(batch, stream_);
  });
  return at;
}

void DeviceEngine::putInFlight(Run& run) {
  InFlight& flight = runs_.emplace_back();
  flight.run = &run;
  if (runs_.size() == 1) flight.first_since = base::Clock::now();
}

/// Launches the runs in flight from `first` on, by calling `put`.
template <class Put>
void DeviceEngine::enqueue(std::size_t first, const Put& put) {
  if (broken_) return; // the rest of a failed group must not run
  try {
    if (!awaitChannels(first)) return; // failAll() follows
    const std::uint64_t capture = device_->capture(stream_);
    for (std::size_t i = first; i < runs_.size(); ++i)
      runs_[i].place = place(*runs_[i].run->plan, capture != 0);
    followLast(capture);
    if (capture != 0) {
      put();
      if (!captured_mark_) captured_mark_ = device_->mark();
      captured_mark_->record(stream_);
      captured_stream_ = stream_;
      captured_in_ = capture;
      for (std::size_t i = first; i < runs_.size(); ++i) {
        ++runs_[i].run->plan->users; // never decremented: the graph refers to the plan
        runs_[i].captured = true;
      }
      return;
    }
    std::shared_ptr<device::Mark> mark;
    if (spare_marks_.empty()) {
      mark = device_->mark();
    } else {
      mark = std::move(spare_marks_.back());
      spare_marks_.pop_back();
    }
    std::unique_lock<std::mutex> seated;
    if (seat_) seated = std::unique_lock(seat_->mutex);
    put();
    proxy_.wake();
    mark->record(stream_);
    if (seat_) {
      std::shared_ptr<device::Mark> before = std::exchange(seat_->last, mark);
      if (before.use_count() == 1) spare_marks_.push_back(std::move(before));
      seated.unlock();
    }
    last_stream_ = stream_;
    for (std::size_t i = first; i < runs_.size(); ++i) {
      runs_[i].mark = mark;
      runs_[i].stream = stream_;
    }
  } catch (...) {
    broken_ = std::current_exception(); // progress() throws it, which breaks the communicator
    giveUpCopies(first);
  }
}

/// Called when the launch of the runs from `first` on has failed. Copies to the device that were
/// queued for them have no mark yet. This records one, so that the memory is not freed before they
/// end.
void DeviceEngine::giveUpCopies(std::size_t first) {
  const auto copied = [](const InFlight& flight) { return flight.place && flight.place->staged; };
  const auto from = runs_.begin() + static_cast<std::ptrdiff_t>(first);
  if (std::none_of(from, runs_.end(), copied)) return;
  try {
    InFlight copies;
    copies.mark = device_->mark();
    copies.mark->record(stream_);
    given_up_.push_back(std::move(copies));
  } catch (const Error& error) {
    base::log(LogLevel::error, "cannot wait for a copy to the device: ", error.what());
  }
}

/// Makes the stream wait for the last launch, if that was on another stream and is still in flight
/// or in the same capture.
void DeviceEngine::followLast(std::uint64_t capture) {
  if (capture != 0) {
    if (capture == captured_in_ && stream_ != captured_stream_)
      device_->follow(stream_, *captured_mark_);
    return;
  }
  const auto last = std::find_if(runs_.rbegin(), runs_.rend(),
                                 [](const InFlight& flight) { return flight.mark != nullptr; });
  if (last != runs_.rend() && stream_ != last_stream_) device_->follow(stream_, *last->mark);
}

/// Waits until the channels of the runs from `first` on are connected. False: the communicator
/// failed.
bool DeviceEngine::awaitChannels(std::size_t first) {
  for (;;) {
    bool all = true;
    for (std::size_t i = first; i < runs_.size(); ++i) all &= connect(*runs_[i].run->plan);
    if (all) return true;
    if (settings_.failed->load(std::memory_order_acquire) != 0) return false;
    std::this_thread::sleep_for(kLook);
  }
}

void DeviceEngine::launch(const Run& run) {
  DevicePlan& plan = *run.plan->device;
  plan.launch.input = run.input;
  plan.launch.output = run.output;
  plan.launch.factor = run.scaling.factor;
  plan.launch.factor_at = static_cast<const std::byte*>(run.scaling.factor_at);
  plan.launch.divisor = static_cast<std::int32_t>(run.scaling.divisor);
  plan.launch.signature = run.signature & ~kSequenceBits;
  plan.function->launch(plan.launch, stream_);
}

void DeviceEngine::finishFirst() {
  Run& run = *runs_.front().run;
  std::shared_ptr<device::Mark> mark = std::move(runs_.front().mark);
  if (mark.use_count() == 1) spare_marks_.push_back(std::move(mark)); // the last run of its launch
  runs_.pop_front();
  if (!runs_.empty()) runs_.front().first_since = base::Clock::now();
  --run.plan->users;
  run.plan = nullptr;
  end(run, nullptr);
}

bool DeviceEngine::progress() {
  if (broken_) {
    const auto stuck = [](const InFlight& one) { return !one.mark && !one.captured; };
    const auto first = std::find_if(runs_.begin(), runs_.end(), stuck);
    current_ = (first == runs_.end() ? runs_.front() : *first).run;
    std::rethrow_exception(broken_);
  }
  bool moved = false;
  while (!runs_.empty()) {
    const InFlight& first = runs_.front();
    current_ = first.run;
    if (const auto error = proxy_.stranded()) std::rethrow_exception(error);
    const bool passed = first.captured || (first.mark && first.mark->passed());
    // A launch that ends early reports this before its mark is passed.
    if (std::atomic_ref(panel().ended).load(std::memory_order_acquire) != 0) throwReport();
    if (!passed) break;
    finishFirst();
    moved = true;
  }
  return moved;
}

void DeviceEngine::throwReport() {
  const device::Report report = panel().report;
  for (const InFlight& flight : runs_)
    if (flight.run->plan->device->launch.plan == report.plan && flight.job == report.job) {
      current_ = flight.run;
      break;
    }
  const Position at = engine::position(*current_->plan, report);
  const std::vector<End*>& ends = current_->plan->ends;
  switch (report.reason) {
    case device::Report::Reason::timeout: throw Late(*current_, at);
    case device::Report::Reason::mismatch:
      if (DeviceRelay::marksEnd(report.theirs))
        proxy_.throwEnded(report.whom < ends.size() ? ends[report.whom] : nullptr);
      throw ForeignCall(at.peer, report.theirs | (current_->signature & kSequenceBits), *current_);
    case device::Report::Reason::overlap:
      throw Error(ErrorCode::aborted,
                  "two launches of this communicator ran at the same time on rank " +
                      std::to_string(settings_.rank) +
                      ": order its calls and graph replays, by one stream or by events",
                  settings_.rank);
    case device::Report::Reason::aborted:
    case device::Report::Reason::none: break;
  }
  throw Error(ErrorCode::aborted, at.text + ", when the launch was aborted", at.peer);
}

std::vector<Standing> DeviceEngine::standing(base::Clock::time_point now,
                                             base::Clock::duration at_least) {
  if (runs_.empty()) return {};
  const auto since = now - runs_.front().first_since;
  if (since < at_least) return {};
  return {{runs_.front().run, std::max(since - kGrace, base::Clock::duration::zero())}};
}

const Run* DeviceEngine::findRun(const std::function<bool(const Run&)>& wanted) const {
  for (const InFlight& flight : runs_)
    if (wanted(*flight.run)) return flight.run;
  return nullptr;
}

Position DeviceEngine::position(const Run& run) {
  if (!run.plan) return {};
  for (const End* end : run.plan->ends)
    if (!end->open()) return {end->peer, "connecting to rank " + std::to_string(end->peer)};
  return {-1, "waiting on its stream"};
}

/// Launches end by themselves soon after the abort. They use the program's memory until then, like
/// other work on the stream.
void DeviceEngine::failAll(const Error& error) {
  abortLaunches();
  endOthers();
  proxy_.stop();
  for (InFlight& flight : runs_) {
    Run& run = *flight.run;
    if (flight.mark) given_up_.push_back(std::move(flight));
    end(run, &error);
  }
  runs_.clear();
  for (const Noted& noted : noted_) end(*noted.run, &error);
  noted_.clear();
  layout_.clear();
}

} // namespace rondo::engine
