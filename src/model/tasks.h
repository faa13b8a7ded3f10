// A training step as tasks, with what each of them waits for, and when they run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rondo/types.h"

namespace rondo::model {

/// Does one task at a time, in the order in which the tasks were added: a rank's passes, or a
/// network.
struct Resource {
  std::string owner = {}; ///< "rank 0"; resources of one owner are shown together
  std::string name = {};  ///< "passes"
  int rank = -1;          ///< the rank, or -1: all ranks use it
};

struct Task {
  std::string name = {};
  double seconds = 0;                        ///< if no other task shares its processor
  std::vector<std::uint32_t> resources = {}; ///< at least one; it occupies all of them at once
  std::vector<std::uint32_t> after = {};     ///< tasks that were added before
  /// Tasks on one processor share its time equally; -1: this task has a processor for itself.
  int processor = -1;
  bool communication = false;
  std::optional<Collective> collective = {}; ///< of a communication of all ranks
  double bytes = 0;                          ///< of a communication
  int to = -1; ///< of a message from the rank of its resource: the rank that gets it
};

struct TaskTime {
  double begin = 0, end = 0; ///< seconds
};

class TaskGraph {
 public:
  /// Returns its number.
  std::uint32_t addResource(Resource resource);
  /// Returns its number. Throws Error(invalid_argument) for a resource that does not exist, for a
  /// task that waits for itself or a later one, and for a time that is negative or not finite.
  std::uint32_t add(Task task);

  const std::vector<Resource>& resources() const { return resources_; }
  const std::vector<Task>& tasks() const { return tasks_; }
  /// When each task runs: as soon as its resources are free and the tasks that it waits for have
  /// ended.
  std::vector<TaskTime> times() const;

 private:
  std::vector<Resource> resources_;
  std::vector<Task> tasks_;
};

} // namespace rondo::model
