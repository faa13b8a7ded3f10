#include "train/parallel/pipeline/diagram.h"

#include <cmath>

#include "train/parallel/pipeline/simulate.h"

namespace rondo::training {

namespace {

std::string label(const PipelineShape& shape, const Operation& operation) {
  const char letter = operation.task == Task::forward    ? 'F'
                      : operation.task == Task::backward ? 'B'
                                                         : 'R';
  std::string text = letter + std::to_string(operation.micro);
  if (shape.laps > 1) text += static_cast<char>('a' + operation.part / shape.stages);
  return text;
}

} // namespace

std::string diagram(const Timetable& timetable) {
  const PipelineShape& shape = timetable.shape;
  const SimulatedStep step = simulate(timetable, PassCosts::even(shape, 1, 2));
  const std::size_t cell =
      label(shape, {Task::forward, shape.micro_batches - 1, 0}).size() + 1; // 1 column for a gap
  const auto column = [&](double time) {
    return static_cast<std::size_t>(std::lround(time)) * cell;
  };
  std::string text;
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    std::string row(column(step.makespan), ' ');
    for (std::size_t at = 0; at < row.size(); at += cell) row[at] = '.';
    for (const TimedOperation& one : step.ranks[rank]) {
      std::string shown = label(shape, one.operation);
      // A pass of two units is drawn to the end of the second unit.
      shown.resize(column(one.end) - column(one.begin) - 1, '-');
      row.replace(column(one.begin), shown.size() + 1, shown + " ");
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += "stage " + std::to_string(rank) + " | " + row + "\n";
  }
  return text;
}

} // namespace rondo::training
