// Models as `rondo simulate train` sees them: for each layer its weights, its operations and the
// times of its passes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "train/data/batch.h"
#include "train/layers/values.h"

namespace rondo::tools {

struct StepLayer {
  std::string name = {};
  std::size_t place = 0;                 ///< index among the layers that a strategy may divide
  std::size_t unit = 0;                  ///< index of the unit; a pipeline is cut between units
  std::vector<std::size_t> weights = {}; ///< elements of each weight
  double flops = 0;                      ///< of the forward pass of one sample
  std::size_t outputs = 0;               ///< elements of its output for one sample
  double forward = 0, backward = 0;      ///< seconds, for one micro-batch
};

/// Layers in forward order. The branches of a residual block are separate layers with the same
/// `place`.
struct StepModel {
  std::string name = {};
  std::vector<StepLayer> layers = {};
  training::LayerValues values = {}; ///< of a model of the trainer; otherwise empty
  training::SampleShape input{};
  std::size_t samples = 1;        ///< of a micro-batch
  double data = 0, optimizer = 0; ///< seconds of a step, on each rank
  std::string source = {};        ///< where the times come from

  double forward() const, backward() const; ///< seconds of a micro-batch
  double flops() const;
  std::size_t weights() const; ///< elements
};

inline constexpr std::string_view kBert = "bert";

/// A model of the trainer, or "bert": BERT-Large (Devlin et al., 2018) with 128 tokens in a sample
/// and the head that predicts 20 masked tokens, whose matrix is the embedding's. `shape` is
/// CHANNELSxHEIGHTxWIDTH of a sample; empty: that of the data for which the model was made. Throws
/// Error(invalid_argument).
StepModel stepModel(const std::string& name, const std::string& shape, std::size_t samples);

/// Each sets the times of all layers. Backward passes are assumed to have twice the operations of
/// forward passes, and layers without multiplications to take no time.
void timeByRate(StepModel& model, double flops_per_second);
/// The times in a JSON report of `rondo train` on one rank, or of strategy local on several,
/// divided among the layers by their operations. Ranks of strategy local compute at the same time,
/// so their times contain what ranks lose because they share caches and memory. Throws Error(data)
/// "FILE:LINE: WHY" unless it is such a report of the same model with the same samples in a
/// micro-batch.
void timeByReport(StepModel& model, const std::string& file);
/// Measures the times on this processor, as the trainer does for a pipeline. Within a unit of the
/// pipeline the time is divided among the layers by their operations.
void timeByMeasurement(StepModel& model);

} // namespace rondo::tools
