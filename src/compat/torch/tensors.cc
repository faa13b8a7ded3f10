// Converts torch's tensors, types and operators to Rondo's, and refuses those that Rondo lacks.
#include "compat/torch/tensors.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

namespace rondo::compat {

namespace {

std::optional<DataType> ownType(at::ScalarType type) {
  static const auto known = [] {
    std::array<std::optional<DataType>, static_cast<std::size_t>(at::ScalarType::NumOptions)> types;
    for (std::size_t i = 0; i < types.size(); ++i)
      for (const detail::DataTypeTraits& row : detail::kDataTypeTraits)
        if (row.torch == c10::toString(static_cast<at::ScalarType>(i))) types[i] = row.type;
    return types;
  }();
  const auto number = static_cast<std::size_t>(type);
  return number < known.size() ? known[number] : std::nullopt;
}

bool movesAsBytes(at::ScalarType type) {
  switch (type) {
    case at::kBool:
    case at::kComplexHalf:
    case at::kComplexFloat:
    case at::kComplexDouble:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2fnuz:
    case at::kFloat8_e8m0fnu: return true;
    default: return false;
  }
}

ReduceOp boolOp(c10d::ReduceOp::RedOpType op, const char* call) {
  using Op = c10d::ReduceOp;
  switch (op) {
    case Op::SUM:
    case Op::MAX:
    case Op::BOR: return ReduceOp::max;
    case Op::PRODUCT:
    case Op::MIN:
    case Op::BAND: return ReduceOp::min;
    case Op::BXOR: return ReduceOp::bxor;
    default:
      C10_THROW_ERROR(ValueError, std::string("rondo: ") + call +
                                      ": averages and scaled sums of Bool are not Bool");
  }
}

Operator scaledSum(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  const auto* given = dynamic_cast<c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (!given) C10_THROW_ERROR(ValueError, "rondo: PREMUL_SUM without its factor");
  const at::Tensor& factor = given->tensor_factor;
  if (!factor.defined()) return {ReduceOp::preMulSum(given->double_factor)};
  if (factor.device().is_cpu() || tensor.device().is_cpu())
    return {ReduceOp::preMulSum(factor.item<double>())};
  if (factor.numel() != 1)
    C10_THROW_ERROR(ValueError, "rondo: PREMUL_SUM: its factor has " +
                                    std::to_string(factor.numel()) + " elements");
  // The factor with the call's type, on its device: the program's own tensor if it has both.
  const at::Tensor there = factor.to(tensor.device(), tensor.scalar_type(), true);
  return {ReduceOp::preMulSumAt(there.const_data_ptr()), {there}};
}

} // namespace

void refuse(const at::Tensor& tensor, const char* call, const char* why) {
  std::ostringstream text;
  text << "rondo: " << call << ": " << why << ": a " << tensor.layout() << " tensor of "
       << tensor.scalar_type() << " on " << tensor.device() << ", size " << tensor.sizes();
  if (tensor.layout() == at::kStrided) text << ", strides " << tensor.strides();
  C10_THROW_ERROR(ValueError, text.str());
}

void requireStrided(const at::Tensor& tensor, const char* call) {
  if (!tensor.defined()) C10_THROW_ERROR(ValueError, std::string("rondo: ") + call + ": no tensor");
  if (tensor.layout() != at::kStrided) refuse(tensor, call, "only dense tensors are taken");
}

Array toMove(const at::Tensor& tensor, const char* call) {
  const auto count = static_cast<std::size_t>(tensor.numel());
  if (const auto own = ownType(tensor.scalar_type())) return {tensor.data_ptr(), count, *own};
  if (!movesAsBytes(tensor.scalar_type()))
    refuse(tensor, call, "elements must be numbers of whole bytes");
  return {tensor.data_ptr(), count * tensor.itemsize(), DataType::uint8};
}

Array toReduce(const at::Tensor& tensor, const char* call) {
  const auto own = ownType(tensor.scalar_type());
  if (!own && tensor.scalar_type() != at::kBool)
    refuse(tensor, call, "there is no reduction of elements of this type");
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
          own.value_or(DataType::uint8)};
}

Operator toOp(const c10d::ReduceOp& op, const at::Tensor& tensor, const char* call) {
  using Op = c10d::ReduceOp;
  if (tensor.scalar_type() == at::kBool) return {boolOp(op, call)};
  switch (op.op_) {
    case Op::SUM: return {ReduceOp::sum};
    case Op::AVG: return {ReduceOp::avg};
    case Op::PRODUCT: return {ReduceOp::prod};
    case Op::MIN: return {ReduceOp::min};
    case Op::MAX: return {ReduceOp::max};
    case Op::BAND: return {ReduceOp::band};
    case Op::BOR: return {ReduceOp::bor};
    case Op::BXOR: return {ReduceOp::bxor};
    case Op::PREMUL_SUM: return scaledSum(op, tensor);
    default: C10_THROW_ERROR(ValueError, std::string("rondo: ") + call + ": unknown operator");
  }
}

const at::Tensor& single(const std::vector<at::Tensor>& tensors, const char* call) {
  if (tensors.size() != 1)
    C10_THROW_ERROR(ValueError, std::string("rondo: ") + call + ": " +
                                    std::to_string(tensors.size()) +
                                    " tensors; a rank has one in each call");
  return tensors.front();
}

TensorBlocks::TensorBlocks(const std::vector<at::Tensor>& tensors, int size, const char* call,
                           Array (*read)(const at::Tensor&, const char*)) {
  if (tensors.size() != static_cast<std::size_t>(size))
    C10_THROW_ERROR(ValueError, std::string("rondo: ") + call + ": a list of " +
                                    std::to_string(tensors.size()) + " tensors for " +
                                    std::to_string(size) + " ranks");
  std::vector<std::uintptr_t> addresses;
  std::uintptr_t lowest = UINTPTR_MAX;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.scalar_type() != tensors.front().scalar_type())
      refuse(tensor, call, "all tensors of a list must be of one type");
    const Array array = read(tensor, call);
    type_ = array.type;
    counts_.push_back(array.count);
    addresses.push_back(reinterpret_cast<std::uintptr_t>(array.data));
    if (array.count > 0) lowest = std::min(lowest, addresses.back());
  }
  if (lowest != UINTPTR_MAX) data_ = reinterpret_cast<void*>(lowest);
  for (std::size_t r = 0; r < addresses.size(); ++r) {
    const std::uintptr_t distance = counts_[r] > 0 ? addresses[r] - lowest : 0;
    if (distance % sizeOf(type_) != 0)
      refuse(tensors[r], call, "the tensors of a list must be aligned to their elements");
    offsets_.push_back(distance / sizeOf(type_));
  }
}

SplitBlocks::SplitBlocks(const at::Tensor& tensor, const Array& array,
                         const std::vector<int64_t>& splits, int size, const char* call) {
  const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 1;
  if (splits.empty() && rows % size != 0)
    refuse(tensor, call, "without split sizes the ranks must divide the first dimension");
  if (!splits.empty() && splits.size() != static_cast<std::size_t>(size))
    refuse(tensor, call, "there must be one split size for each rank");
  const std::size_t row = rows > 0 ? array.count / static_cast<std::size_t>(rows) : 0;
  std::size_t at = 0;
  for (int r = 0; r < size; ++r) {
    const int64_t share = splits.empty() ? rows / size : splits[static_cast<std::size_t>(r)];
    if (share < 0) refuse(tensor, call, "split sizes must not be negative");
    counts_.push_back(static_cast<std::size_t>(share) * row);
    offsets_.push_back(at);
    at += counts_.back();
  }
  if (at != array.count) refuse(tensor, call, "split sizes must add up to the first dimension");
}

} // namespace rondo::compat
