// Converts tensors to Rondo's arguments: an address, a number of elements and a type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/types.h"

namespace rondo::compat {

/// Throws a ValueError that names `call`, the reason and the tensor's properties.
[[noreturn]] void refuse(const at::Tensor& tensor, const char* call, const char* why);

/// Throws ValueError for a tensor without strides: an undefined or a sparse one.
void requireStrided(const at::Tensor& tensor, const char* call);

/// A dense, contiguous tensor.
struct Array {
  void* data = nullptr;
  std::size_t count = 0; ///< elements of `type`
  DataType type = DataType::uint8;
};

/// Converts a tensor that Copies returned, for calls that only move elements. Takes all types of
/// whole bytes; types that Rondo does not have (bool, complex, other 8-bit floats) are sent as
/// bytes. Throws a ValueError that names `call` and the tensor's properties for other types.
Array toMove(const at::Tensor& tensor, const char* call);

/// Converts a tensor for reductions. Takes the types that Rondo has, and bool, which is reduced as
/// the bytes 0 and 1. (dist.all_reduce() has already turned complex numbers into pairs of floats.)
/// Throws as toMove().
Array toReduce(const at::Tensor& tensor, const char* call);

struct Operator {
  ReduceOp op;
  /// Factors in device memory, which the call reads while it runs. Keep them until it has ended.
  std::vector<at::Tensor> reads = {};
};

/// Converts an operator for tensors like this one. On bool, SUM is "or" and PRODUCT is "and". If
/// the factor is a tensor on a device and so is `tensor`, the call does not wait for the factor:
/// the device reads it in stream order. Throws ValueError for an operator that the type lacks.
Operator toOp(const c10d::ReduceOp& op, const at::Tensor& tensor, const char* call);

/// Returns the only tensor. Throws ValueError if there is not exactly one.
const at::Tensor& single(const std::vector<at::Tensor>& tensors, const char* call);

/// Describes tensors, one for each rank and anywhere in memory, as blocks of one buffer, so that
/// lists need not be copied into one tensor. `data` is the lowest address.
class TensorBlocks {
 public:
  /// All tensors must have the same type. Throws ValueError, also if there are not `size` tensors.
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

/// The blocks of all_to_all_single(): cuts a tensor along its first dimension by the given sizes,
/// or evenly if there are none.
class SplitBlocks {
 public:
  /// Throws ValueError if there is not one size for each rank, or if the sizes do not add up.
  SplitBlocks(const at::Tensor& tensor, const Array& array, const std::vector<int64_t>& splits,
              int size, const char* call);

  Blocks blocks() const { return {counts_, offsets_}; }

 private:
  std::vector<std::size_t> counts_, offsets_;
};

} // namespace rondo::compat
