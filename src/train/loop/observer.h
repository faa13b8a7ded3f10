// Keeps what a run's reports are made of, and writes them.
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

/// What of TrainOptions::report, trace and metrics is wanted: rank 0 keeps it, the others tell it
/// their timelines at the end.
class Observer {
 public:
  /// What is passed must live as long.
  Observer(Communicator& comm, const TrainOptions& options, const Settings& settings);

  /// Collective; once, before the first step. Opens the files of a run of which `done` steps are
  /// done, and finds a moment at which all ranks' timelines begin. Throws Error(system), that names
  /// what cannot be written, on every rank.
  void begin(std::int64_t done);

  /// Where the events of this step go; null where it is not observed so closely. `before` steps
  /// have run since this was made.
  Timeline* timeline(std::size_t before, std::int64_t step);
  /// Once a step, of so many samples; a fault of the metrics' file is thrown in finish(), on every
  /// rank.
  void add(const TrainProgress& progress, double samples);
  void add(const EpochRecord& epoch);
  /// What was added is in the metrics' file: a run that goes on from a checkpoint does not repeat
  /// it.
  void flush();

  /// Collective. Writes the files. Throws Error(system), that names the file, on every rank.
  void finish(double seconds);
  void endsAmidEpoch(double test_accuracy) { record_.end_accuracy = test_accuracy; }

 private:
  template <class Write>
  void toMetrics(const Write& write);
  std::string page() const { return options_.report + "/index.html"; }
  void open(std::int64_t done);
  void collect();

  Communicator& comm_;
  const TrainOptions& options_;
  const bool keeps_, observes_;
  TrainRecord record_;
  Timeline timeline_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<Error> fault_; ///< of the metrics' file
};

} // namespace rondo::training
