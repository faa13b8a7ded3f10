// Shows tensors to Rondo as what they are: counts of elements of a type at an address.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/types.h"

namespace rondo::compat {

/// Throws ValueError that names `call`, the reason and the tensor's properties.
[[noreturn]] void refuse(const at::Tensor& tensor, const char* call, const char* why);

/// Throws ValueError for what has no strides: no tensor, a sparse one.
void requireStrided(const at::Tensor& tensor, const char* call);

/// A dense, contiguous tensor.
struct Array {
  void* data = nullptr;
  std::size_t count = 0; ///< elements of `type`
  DataType type = DataType::uint8;
};

/// Of a tensor that Copies returned. For calls that only move elements: of any type of whole bytes;
/// those that Rondo does not have (bool, complex, further 8-bit floats) go as bytes. Throws
/// ValueError that names `call` and the tensor's properties for other elements.
Array toMove(const at::Tensor& tensor, const char* call);

/// For reductions: of a type that Rondo has, or bool, which is reduced as the bytes 0 and 1.
/// Complex numbers come as pairs of floats, which dist.all_reduce() makes of them. Throws as
/// toMove().
Array toReduce(const at::Tensor& tensor, const char* call);

struct Operator {
  ReduceOp op;
  /// What it reads when the call runs, and so must live as long: a factor in a device's memory.
  std::vector<at::Tensor> reads = {};
};

/// The operator for tensors like this one. On bool SUM is "or" and PRODUCT is "and". A factor that
/// is a tensor on a device is not waited for where the tensor is on one too: it is read there, in
/// the order of the stream. Throws ValueError for an operator that the type does not have.
Operator toOp(const c10d::ReduceOp& op, const at::Tensor& tensor, const char* call);

/// The one of `tensors`, which must be one. Throws ValueError.
const at::Tensor& single(const std::vector<at::Tensor>& tensors, const char* call);

/// Tensors, one for each rank and anywhere in memory, as one buffer with blocks, so that lists need
/// not be copied together: `data` is the lowest address.
class TensorBlocks {
 public:
  /// All must be arrays of one type. Throws ValueError, also where there are not `size` of them.
  TensorBlocks(const std::vector<at::Tensor>& tensors, int size, const char* call,
               Array (*read)(const at::Tensor&, const char*));

  void* data() const { return data_; }
  Blocks blocks() const { return {counts_, offsets_}; }
  DataType type() const { return type_; }

 private:
  void* data_ = nullptr;
  std::vector<std::size_t> counts_, offsets_;
  DataType type_ = DataType::uint8;
};

/// How all_to_all_single() cuts a tensor: by sizes along its first dimension, or evenly where there
/// are none.
class SplitBlocks {
 public:
  /// Throws ValueError where the sizes are not one for each rank, or do not add up.
  SplitBlocks(const at::Tensor& tensor, const Array& array, const std::vector<int64_t>& splits,
              int size, const char* call);

  Blocks blocks() const { return {counts_, offsets_}; }

 private:
  std::vector<std::size_t> counts_, offsets_;
};

} // namespace rondo::compat
