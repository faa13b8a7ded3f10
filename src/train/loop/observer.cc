// Records steps, gathers the timelines of all ranks on rank 0, and writes the report files there.
#include "train/loop/observer.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <type_traits>

#include "train/loop/agreement.h"
#include "train/report/page.h"
#include "train/report/trace.h"

namespace rondo::training {

namespace {

/// The steps with a timeline. The steps before them are slower, since they open channels and build
/// programs.
constexpr std::size_t kFirst = 2, kCount = 10;

/// A TimelineEvent in the form in which ranks send it to rank 0.
struct Packed {
  std::array<char, 24> name{};
  std::int64_t rank, lane, step;
  double begin, seconds;
  std::uint64_t bytes;
};
static_assert(std::is_trivially_copyable_v<Packed>);

Packed pack(const TimelineEvent& event) {
  Packed packed{.rank = event.rank,
                .lane = static_cast<std::int64_t>(event.lane),
                .step = event.step,
                .begin = event.begin,
                .seconds = event.seconds,
                .bytes = event.bytes};
  event.name.copy(packed.name.data(), packed.name.size() - 1);
  return packed;
}

TimelineEvent unpack(const Packed& packed) {
  return {packed.name.data(),
          static_cast<int>(packed.rank),
          static_cast<Lane>(packed.lane),
          packed.step,
          packed.begin,
          packed.seconds,
          packed.bytes};
}

} // namespace

Observer::Observer(Communicator& comm, const TrainOptions& options, const Settings& settings)
    : comm_(comm),
      options_(options),
      keeps_(comm.rank() == 0 && !(options.files.report.empty() && options.files.metrics.empty())),
      observes_(!(options.files.report.empty() && options.files.trace.empty())) {
  record_.title =
      options.model + ", " + std::to_string(comm.size()) + (comm.size() == 1 ? " rank" : " ranks");
  record_.settings = settings;
}

void Observer::begin(std::int64_t done, bool goes_on) {
  agree(comm_, [&]() -> std::string {
    if (comm_.rank() == 0) open(done, goes_on);
    return {};
  });
  comm_.barrier();
  timeline_.zero = Clock::now();
  timeline_.rank = comm_.rank();
}

/// requireFiles() has checked that the files can be written.
void Observer::open(std::int64_t done, bool goes_on) {
  if (!options_.files.report.empty()) {
    std::error_code fault;
    std::filesystem::create_directories(options_.files.report, fault);
    if (fault)
      throw Error(ErrorCode::system,
                  options_.files.report + ": the folder could not be made: " + fault.message());
  }
  if (options_.files.metrics.empty()) return;
  using Begin = TextFile::Begin;
  if (goes_on) cutMetrics(options_.files.metrics, done);
  metrics_ =
      std::make_unique<MetricsFile>(options_.files.metrics, goes_on ? Begin::behind : Begin::anew);
}

Timeline* Observer::timeline(std::size_t before, std::int64_t step) {
  toTrace();
  kept_ = observes_ && before >= kFirst && before < kFirst + kCount;
  if (!kept_ && !comm_.tracing()) return nullptr;
  timeline_.step = step;
  return &timeline_;
}

/// Adds the events of the last step to the trace of calls, and drops those that no report needs.
void Observer::toTrace() {
  if (!comm_.tracing()) return;
  auto& events = timeline_.events;
  for (std::size_t i = traced_; i < events.size(); ++i) {
    const TimelineEvent& event = events[i];
    const auto at = [&](double seconds) {
      return timeline_.zero +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    };
    comm_.trace({"train: " + std::string(nameOf(event.lane)), event.name, at(event.begin),
                 at(event.begin + event.seconds), event.step, event.bytes});
  }
  if (!kept_) events.resize(traced_);
  traced_ = events.size();
}

template <class Write>
void Observer::toMetrics(const Write& write) {
  if (!metrics_ || fault_) return;
  try {
    write(*metrics_);
  } catch (const Error& error) {
    fault_ = std::make_unique<Error>(error);
  }
}

void Observer::add(const TrainProgress& progress, double samples) {
  if (!keeps_) return;
  const StepRecord record{.number = progress.total_step,
                          .epoch = progress.epoch,
                          .step = progress.step,
                          .loss = progress.loss,
                          .learning_rate = progress.learning_rate,
                          .samples_per_second = samples / (progress.times.step / 1000),
                          .times = progress.times};
  toMetrics([&](MetricsFile& file) { file.add(record); });
  if (!options_.files.report.empty()) record_.steps.push_back(record);
}

void Observer::add(const EpochRecord& epoch) {
  if (!keeps_) return;
  toMetrics([&](MetricsFile& file) { file.add(epoch); });
  record_.epochs.push_back(epoch);
}

void Observer::flush() {
  toMetrics([](MetricsFile& file) { file.flush(); });
}

/// Gathers the timelines of all ranks on rank 0.
void Observer::collect() {
  std::vector<Packed> own, all;
  for (const TimelineEvent& event : timeline_.events) own.push_back(pack(event));
  const std::size_t bytes = own.size() * sizeof(Packed);
  std::vector<std::size_t> counts(static_cast<std::size_t>(comm_.size())), offsets;
  comm_.allGather(&bytes, counts.data(), 1, DataType::uint64);
  std::size_t total = 0;
  for (const std::size_t count : counts) {
    offsets.push_back(total);
    total += count;
  }
  if (comm_.rank() == 0) all.resize(total / sizeof(Packed));
  comm_.gatherv(own.data(), bytes, all.data(), {counts, offsets}, DataType::uint8, 0);
  for (const Packed& packed : all) record_.timeline.push_back(unpack(packed));
}

void Observer::finish(double seconds) {
  toTrace();
  if (observes_) collect();
  record_.seconds = seconds;
  agree(comm_, [&]() -> std::string {
    if (comm_.rank() != 0) return {};
    if (fault_) throw Error(*fault_);
    if (metrics_) metrics_->close();
    if (!options_.files.trace.empty()) writeTrace(options_.files.trace, record_.timeline);
    if (!options_.files.report.empty()) writePage(page(), record_);
    return {};
  });
}

} // namespace rondo::training
