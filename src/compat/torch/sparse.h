// Sums of sparse tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "rondo/communicator.h"

namespace rondo::compat {

/// Returns the sum of all ranks' tensors, coalesced: each rank gets every rank's indices and
/// values, and adds them up. The same bits on all ranks. Throws ValueError for a tensor that is not
/// sparse (COO) and in host memory, Error(mismatch) on all ranks where their sizes or types differ,
/// and what allGatherv() throws.
at::Tensor sumSparse(Communicator& communicator, const at::Tensor& tensor, const char* call);

} // namespace rondo::compat
