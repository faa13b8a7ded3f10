// Cross-validation: which samples a fold holds out.
#pragma once

#include "train/data/dataset.h"

namespace rondo::training {

/// Makes the samples of the fold the test set, and the other training samples the training set; the
/// test set that was there is dropped. Each sample is in exactly one fold of a count, and the sizes
/// of the folds differ by at most one. Which one depends only on the number of samples: it is drawn
/// at random, since files are often sorted by class, and is the same for every seed of a run. Both
/// sets keep the order of the samples. Does nothing for count 0. Throws Error(invalid_argument) if
/// there are fewer samples than folds.
void takeFold(Data& data, Fold fold);

} // namespace rondo::training
