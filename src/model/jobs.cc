// Simulates when jobs begin and end. Every job ends, because it waits only for jobs that were added
// before it.
#include "model/jobs.h"

#include <cmath>
#include <deque>
#include <map>
#include <queue>
#include <utility>

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

namespace {

/// The jobs that compute on one processor. Its clock shows the processor time that each of them has
/// received. So a job ends when the clock shows its value at the job's begin plus the job's
/// seconds.
class SharedProcessor {
 public:
  void add(double now, std::uint32_t job, double seconds) {
    advance(now);
    active_.emplace(clock_ + seconds, job);
  }
  std::uint32_t pop(double now) {
    advance(now);
    const std::uint32_t job = active_.begin()->second;
    clock_ = active_.begin()->first;
    active_.erase(active_.begin());
    return job;
  }
  bool idle() const { return active_.empty(); }
  /// When the next job ends, if none is added before.
  double next() const {
    return at_ + (active_.begin()->first - clock_) * static_cast<double>(active_.size());
  }

 private:
  void advance(double now) {
    if (!active_.empty()) clock_ += (now - at_) / static_cast<double>(active_.size());
    at_ = now;
  }

  std::multimap<double, std::uint32_t> active_; ///< by the clock's value at their end
  double clock_ = 0, at_ = 0;
};

class JobRun {
 public:
  JobRun(const std::vector<Job>& jobs, std::size_t lanes)
      : jobs_(jobs),
        queues_(lanes),
        waits_(jobs.size()),
        dependents_(jobs.size()),
        times_(jobs.size()) {
    for (std::uint32_t job = 0; job < jobs.size(); ++job) {
      waits_[job] = jobs[job].after.size();
      for (const std::uint32_t before : jobs[job].after) dependents_[before].push_back(job);
      for (const std::uint32_t lane : jobs[job].lanes) {
        if (!queues_[lane].empty()) ++waits_[job];
        queues_[lane].push_back(job);
      }
    }
  }

  std::vector<JobTime> times() {
    for (std::uint32_t job = 0; job < jobs_.size(); ++job)
      if (waits_[job] == 0) begin(job, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.processor < 0) {
        end(event.object, event.time);
      } else if (SharedProcessor& processor = processors_[event.processor];
                 !processor.idle() && event.time == processor.next()) {
        const std::uint32_t job = processor.pop(event.time);
        expect(event.processor);
        end(job, event.time);
      }
    }
    return std::move(times_);
  }

 private:
  /// The end of a job without `processor`, or the next end of a job on a processor. The latter
  /// event is ignored if another job has begun there in the meantime.
  struct Event {
    double time = 0;
    std::uint64_t number = 0;
    std::uint32_t object = 0;
    int processor = -1;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  void push(double time, std::uint32_t job, int processor) {
    events_.push({time, pushed_++, job, processor});
  }
  void expect(int processor) {
    if (const SharedProcessor& shared = processors_[processor]; !shared.idle())
      push(shared.next(), 0, processor);
  }
  void begin(std::uint32_t job, double now) {
    times_[job].begin = now;
    const int processor = jobs_[job].processor;
    if (processor < 0) return push(now + jobs_[job].seconds, job, -1);
    processors_[processor].add(now, job, jobs_[job].seconds);
    expect(processor);
  }
  void release(std::uint32_t job, double now) {
    if (--waits_[job] == 0) begin(job, now);
  }
  void end(std::uint32_t job, double now) {
    times_[job].end = now;
    for (const std::uint32_t lane : jobs_[job].lanes) {
      queues_[lane].pop_front();
      if (!queues_[lane].empty()) release(queues_[lane].front(), now);
    }
    for (const std::uint32_t next : dependents_[job]) release(next, now);
  }

  const std::vector<Job>& jobs_;
  std::vector<std::deque<std::uint32_t>> queues_;
  std::vector<std::size_t> waits_; ///< of a job: jobs, and lanes where it is not first
  std::vector<std::vector<std::uint32_t>> dependents_;
  std::vector<JobTime> times_;
  std::map<int, SharedProcessor> processors_;
  std::priority_queue<Event> events_;
  std::uint64_t pushed_ = 0;
};

} // namespace

std::vector<JobTime> JobGraph::times() const { return JobRun(jobs_, lanes_.size()).times(); }

} // namespace rondo::model
