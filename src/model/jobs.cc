// Runs jobs: since a job waits only for earlier ones, one pass over them gives all times.
#include "model/jobs.h"

#include <algorithm>
#include <cmath>

#include "rondo/error.h"

namespace rondo::model {

std::uint32_t JobGraph::addLane(JobLane lane) {
  lanes_.push_back(std::move(lane));
  return static_cast<std::uint32_t>(lanes_.size() - 1);
}

std::uint32_t JobGraph::add(Job job) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "job \"" + job.name + "\" " + why);
  };
  if (!std::isfinite(job.seconds) || job.seconds < 0)
    refuse("takes " + std::to_string(job.seconds) + " seconds");
  if (job.lanes.empty()) refuse("has no lane");
  for (const std::uint32_t lane : job.lanes)
    if (lane >= lanes_.size()) refuse("has a lane that does not exist");
  for (const std::uint32_t before : job.after)
    if (before >= jobs_.size()) refuse("waits for a job that was not added before it");
  jobs_.push_back(std::move(job));
  return static_cast<std::uint32_t>(jobs_.size() - 1);
}

std::vector<JobTime> JobGraph::times() const {
  std::vector<double> free(lanes_.size());
  std::vector<JobTime> times;
  times.reserve(jobs_.size());
  for (const Job& job : jobs_) {
    double begin = 0;
    for (const std::uint32_t lane : job.lanes) begin = std::max(begin, free[lane]);
    for (const std::uint32_t before : job.after) begin = std::max(begin, times[before].end);
    const double end = begin + job.seconds;
    for (const std::uint32_t lane : job.lanes) free[lane] = end;
    times.push_back({begin, end});
  }
  return times;
}

} // namespace rondo::model
