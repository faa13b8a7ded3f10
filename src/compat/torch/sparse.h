// Sums of sparse tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "rondo/communicator.h"

namespace rondo::compat {

/// Returns the sum of all ranks' tensors, coalesced. Each rank gathers every rank's indices and
/// values, and adds them up; the result has the same bits on all ranks. Throws ValueError for a
/// tensor that is not sparse (COO) or not in host memory, Error(mismatch) on all ranks if sizes or
/// types differ, and the errors of allGatherv().
at::Tensor sumSparse(Communicator& communicator, const at::Tensor& tensor, const char* call);

} // namespace rondo::compat
