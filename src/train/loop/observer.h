// Collects the data of a run's reports, and writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "rondo/train.h"
#include "train/loop/settings.h"
#include "train/loop/stopwatch.h"
#include "train/report/metrics.h"
#include "train/report/record.h"

namespace rondo::training {

/// Records what TrainOptions::files.report, trace and metrics ask for. Rank 0 keeps the records; at
/// the end the other ranks send it their timelines. If the communicator has a trace of calls
/// (RONDO_TRACE), the timelines of all steps join it.
class Observer {
 public:
  /// The arguments must outlive the observer.
  Observer(Communicator& comm, const TrainOptions& options, const Settings& settings);

  /// Collective; called once, before the first step. Opens the files of a run, which begins or
  /// (`goes_on`) continues after step `done`, and finds a common zero for all ranks' timelines.
  /// Throws Error(system), which names the file that cannot be written, on every rank.
  void begin(std::int64_t done, bool goes_on);

  /// Returns the timeline for this step, or null if the step is not observed in detail. `before` is
  /// the number of steps since the observer was constructed.
  Timeline* timeline(std::size_t before, std::int64_t step);
  /// Records a step with this many samples. An error of the metrics file is kept, and finish()
  /// throws it on every rank.
  void add(const TrainProgress& progress, double samples);
  void add(const EpochRecord& epoch);
  /// Writes everything that was added to the metrics file. Called before each checkpoint, so that a
  /// run that resumes from it does not write these lines again.
  void flush();

  /// Collective. Writes the files. Throws Error(system), which names the file, on every rank.
  void finish(double seconds);
  void endsAmidEpoch(double test_accuracy) { record_.end_accuracy = test_accuracy; }

 private:
  template <class Write>
  void toMetrics(const Write& write);
  std::string page() const { return options_.files.report + "/index.html"; }
  void open(std::int64_t done, bool goes_on);
  void toTrace();
  void collect();

  Communicator& comm_;
  const TrainOptions& options_;
  const bool keeps_, observes_;
  TrainRecord record_;
  Timeline timeline_;
  bool kept_ = false;      ///< this step's events belong to the report
  std::size_t traced_ = 0; ///< events of the timeline that the trace of calls has
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<Error> fault_; ///< error of the metrics file
};

} // namespace rondo::training
