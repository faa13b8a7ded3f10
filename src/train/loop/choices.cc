// What the options that are words can be.
#include "rondo/train.h"
#include "train/data/dataset.h"
#include "train/models/model.h"
#include "train/optim/optimizer.h"

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
  return {{"constant", "the same in all steps"},
          {"step", "a tenth after each third of the steps"},
          {"cosine", "half a wave down to 0 at the end"}};
}

} // namespace rondo
