// Lists the values that word options of the trainer can have.
#include "rondo/train.h"
#include "train/data/dataset.h"
#include "train/models/model.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"
#include "train/parallel/strategy.h"

namespace rondo {

std::vector<TrainChoice> trainModels() {
  std::vector<TrainChoice> all;
  for (const training::ModelKind& kind : training::modelKinds())
    all.push_back({std::string(kind.name), std::string(kind.summary)});
  return all;
}

std::vector<TrainChoice> trainData() {
  std::vector<TrainChoice> all;
  for (const training::DataSource* source : training::dataSources())
    all.push_back({std::string(source->name),
                   std::string(source->summary) + "; " + std::string(source->files)});
  return all;
}

std::vector<TrainChoice> trainOptimizers() {
  std::vector<TrainChoice> all;
  for (const training::OptimizerKind* kind : training::optimizers())
    all.push_back({std::string(kind->name), std::string(kind->summary)});
  return all;
}

std::vector<TrainChoice> trainSchedules() {
  std::vector<TrainChoice> all;
  for (const training::ScheduleKind& kind : training::scheduleKinds())
    all.push_back({std::string(kind.name), std::string(kind.summary)});
  return all;
}

std::vector<TrainChoice> trainScalings() {
  std::vector<TrainChoice> all;
  for (const training::ScalingRule& rule : training::scalingRules())
    all.push_back({std::string(rule.name), std::string(rule.summary)});
  return all;
}

std::vector<TrainChoice> trainStrategies() {
  std::vector<TrainChoice> all;
  for (const training::StrategyKind* kind : training::strategies())
    all.push_back({std::string(kind->name), std::string(kind->summary)});
  return all;
}

} // namespace rondo
