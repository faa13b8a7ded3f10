// Look-up and launch of the reduction kernels.
#include "kernels/cuda/reduce/reduce.h"

#include <algorithm>
#include <string>

#include "kernels/cuda/element/vector.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce/arguments.h"
#include "kernels/cuda/reduce/families.h"

namespace rondo::kernels::cuda {
namespace {

bool isBitwise(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::band || kind == ReduceOp::Kind::bor ||
         kind == ReduceOp::Kind::bxor;
}

const void* lookUp(DataType type, ReduceOp::Kind kind) {
  if (isBitwise(kind)) return isFloat(type) ? nullptr : bitsKernel(kind);
  switch (sizeOf(type)) {
    case 1: return isFloat(type) ? float8Kernel(type, kind) : integer8Kernel(type, kind);
    case 2: return isFloat(type) ? halfKernel(type, kind) : integer16Kernel(type, kind);
    case 4: return isFloat(type) ? floatKernel(type, kind) : integer32Kernel(type, kind);
    case 8: return isFloat(type) ? floatKernel(type, kind) : integer64Kernel(type, kind);
  }
  return nullptr;
}

void require(bool condition, const char* what) {
  if (!condition) throw Error(ErrorCode::invalid_argument, std::string("reduction: ") + what);
}

} // namespace

ReduceKernel::ReduceKernel(DataType type, ReduceOp::Kind kind)
    : kernel_(lookUp(type, kind)),
      element_bytes_(isBitwise(kind) ? 1 : sizeOf(type)),
      scale_(isBitwise(kind) ? sizeOf(type) : 1) {
  require(kernel_ != nullptr, "the operator is not defined on the element type");
  grid_limit_ = residentBlocks(kernel_, kReduceThreads);
}

void ReduceKernel::launch(const ReduceCall& call, device::Stream stream) const {
  const std::size_t inputs = call.inputs.size(), outputs = call.outputs.size();
  require(inputs >= 1 && outputs >= 1, "needs an input and an output");
  require(outputs <= kMaxOutputs, "more outputs than kMaxOutputs");
  require(inputs <= kMaxInputs || call.input_table, "more inputs than kMaxInputs need a table");
  require(call.divisor >= 1, "the divisor of an average must be positive");
  if (call.count == 0) return;

  ReduceArguments arguments = {};
  if (!call.input_table)
    for (std::size_t k = 0; k < inputs; ++k)
      arguments.input_list[k] = static_cast<const std::byte*>(call.inputs[k]);
  for (std::size_t j = 0; j < outputs; ++j)
    arguments.output_list[j] = static_cast<std::byte*>(call.outputs[j]);
  arguments.input_table = call.input_table;
  arguments.input_count = static_cast<std::uint32_t>(inputs);
  arguments.output_count = static_cast<std::uint32_t>(outputs);
  arguments.count = call.count * scale_;
  arguments.scale_factor = call.factor;
  arguments.result_divisor = call.divisor;
  const std::size_t vectors = (arguments.count * element_bytes_) / sizeof(Vector) + 1;
  cuda::launch(kernel_, (vectors + kReduceThreads - 1) / kReduceThreads, grid_limit_,
               kReduceThreads, arguments, stream);
}

CopyKernel::CopyKernel() : kernel_(DataType::uint8, ReduceOp::Kind::bor) {}

void CopyKernel::launch(std::span<void* const> outputs, const void* input, std::size_t bytes,
                        device::Stream stream) const {
  kernel_.launch({.outputs = outputs, .inputs = {&input, 1}, .count = bytes}, stream);
}

} // namespace rondo::kernels::cuda
