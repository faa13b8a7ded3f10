// Sums sparse tensors in two steps: gathers the number of elements of each rank, then the elements.
#include "compat/torch/sparse.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "compat/torch/tensors.h"
#include "rondo/error.h"

namespace rondo::compat {

namespace {

/// Words that a rank sends first: the number of its elements, and the values that must be the same
/// on all ranks.
constexpr std::size_t kWords = 5;
using Shape = std::array<std::int64_t, kWords>;

Shape shapeOf(const at::Tensor& coalesced) {
  std::uint64_t sizes = 0xcbf29ce484222325u; // FNV-1a
  for (const std::int64_t size : coalesced.sizes())
    sizes = (sizes ^ static_cast<std::uint64_t>(size)) * 0x100000001b3u;
  return {coalesced._nnz(), coalesced.sparse_dim(), coalesced.dense_dim(),
          static_cast<std::int64_t>(coalesced.scalar_type()), static_cast<std::int64_t>(sizes)};
}

std::vector<std::size_t> countsOf(Communicator& communicator, const at::Tensor& coalesced) {
  const Shape own = shapeOf(coalesced);
  std::vector<std::int64_t> all(kWords * static_cast<std::size_t>(communicator.size()));
  communicator.allGather(own.data(), all.data(), kWords, DataType::int64);
  std::vector<std::size_t> counts;
  for (std::size_t at = 0; at < all.size(); at += kWords) {
    for (std::size_t word = 1; word < kWords; ++word)
      if (all[at + word] != all[word])
        throw Error(ErrorCode::mismatch,
                    "rank " + std::to_string(at / kWords) +
                        " has a sparse tensor of other sizes or another type than rank 0",
                    static_cast<int>(at / kWords));
    counts.push_back(static_cast<std::size_t>(all[at]));
  }
  return counts;
}

/// The ranks' blocks, one after the other. Rank r's block has of[r] times `each` elements.
struct Places {
  Places(const std::vector<std::size_t>& of, std::size_t each) {
    for (const std::size_t count : of) {
      counts.push_back(count * each);
      offsets.push_back(total);
      total += counts.back();
    }
  }
  Blocks blocks() const { return {counts, offsets}; }

  std::vector<std::size_t> counts, offsets;
  std::size_t total = 0;
};

} // namespace

at::Tensor sumSparse(Communicator& communicator, const at::Tensor& tensor, const char* call) {
  if (tensor.layout() != at::kSparse || !tensor.device().is_cpu())
    refuse(tensor, call, "of the sparse tensors only those in COO format on cpu are taken");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor own = tensor.coalesce();
  const at::Tensor own_indices = own._indices().contiguous();
  const at::Tensor own_values = own._values().contiguous();
  const std::vector<std::size_t> counts = countsOf(communicator, own);

  std::vector<std::int64_t> shape = own_values.sizes().vec();
  shape[0] = 0;
  for (const std::size_t count : counts) shape[0] += static_cast<std::int64_t>(count);
  const at::Tensor values = at::empty(shape, own_values.options());
  const at::Tensor indices = at::empty({shape[0] * own.sparse_dim()}, own_indices.options());
  const Array from = toMove(own_values, call), to = toMove(values, call);
  std::size_t each = to.count; // number of elements of `to.type` in one value
  if (shape[0] > 0) each /= static_cast<std::size_t>(shape[0]);
  const Places of_values(counts, each);
  const Places of_indices(counts, static_cast<std::size_t>(own.sparse_dim()));
  Group both;
  communicator.allGatherv(own_indices.const_data_ptr(),
                          static_cast<std::size_t>(own_indices.numel()), indices.data_ptr(),
                          of_indices.blocks(), DataType::int64);
  communicator.allGatherv(from.data, from.count, to.data, of_values.blocks(), from.type);
  both.end();

  std::vector<at::Tensor> columns; // one for each rank, with a row for each sparse dimension
  for (std::size_t r = 0; r < counts.size(); ++r)
    columns.push_back(indices
                          .narrow(0, static_cast<std::int64_t>(of_indices.offsets[r]),
                                  static_cast<std::int64_t>(of_indices.counts[r]))
                          .view({own.sparse_dim(), static_cast<std::int64_t>(counts[r])}));
  return at::sparse_coo_tensor(at::cat(columns, 1), values, own.sizes()).coalesce();
}

} // namespace rondo::compat
