// A training step as jobs, with what each of them waits for, and when they run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rondo/types.h"

namespace rondo::model {

/// Does one job at a time, in the order in which the jobs were added: a rank's passes, or a
/// network.
struct JobLane {
  std::string owner = {}; ///< "rank 0"; lanes of one owner are shown together
  std::string name = {};  ///< "passes"
  int rank = -1;          ///< the rank, or -1: all ranks use it
};

struct Job {
  std::string name = {};
  double seconds = 0;                    ///< if no other job shares its processor
  std::vector<std::uint32_t> lanes = {}; ///< at least one; it occupies all of them at once
  std::vector<std::uint32_t> after = {}; ///< jobs that were added before
  /// Jobs on one processor share its time equally; -1: this job has a processor for itself.
  int processor = -1;
  bool communication = false;
  std::optional<Collective> collective = {}; ///< of a communication of all ranks
  double bytes = 0;                          ///< of a communication
  int to = -1; ///< of a message from the rank of its lane: the rank that gets it
};

struct JobTime {
  double begin = 0, end = 0; ///< seconds
};

class JobGraph {
 public:
  /// Returns its number.
  std::uint32_t addLane(JobLane lane);
  /// Returns its number. Throws Error(invalid_argument) for a lane that does not exist, for a job
  /// that waits for itself or a later one, and for a time that is negative or not finite.
  std::uint32_t add(Job job);

  const std::vector<JobLane>& lanes() const { return lanes_; }
  const std::vector<Job>& jobs() const { return jobs_; }
  /// When each job runs: as soon as its lanes are free and the jobs that it waits for have ended.
  std::vector<JobTime> times() const;

 private:
  std::vector<JobLane> lanes_;
  std::vector<Job> jobs_;
};

} // namespace rondo::model
