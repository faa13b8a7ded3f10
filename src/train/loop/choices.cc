// Lists the values that word options of the trainer can have.
#include "rondo/train.h"
#include "train/data/dataset.h"
#include "train/models/model.h"
#include "train/named.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"
#include "train/parallel/strategy.h"

namespace rondo {

std::vector<TrainChoice> trainModels() { return training::choicesOf(training::modelKinds()); }

std::vector<TrainChoice> trainData() {
  std::vector<TrainChoice> all;
  for (const training::DataSource* source : training::dataSources())
    all.push_back({std::string(source->name),
                   std::string(source->summary) + "; " + std::string(source->files)});
  return all;
}

std::vector<TrainChoice> trainOptimizers() { return training::choicesOf(training::optimizers()); }

std::vector<TrainChoice> trainSchedules() { return training::choicesOf(training::scheduleKinds()); }

std::vector<TrainChoice> trainScalings() { return training::choicesOf(training::scalingRules()); }

std::vector<TrainChoice> trainStrategies() { return training::choicesOf(training::strategies()); }

} // namespace rondo
