// Copies tensors that Rondo cannot use in place, and copies results back.
#include "compat/torch/copies.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include "compat/torch/tensors.h"

namespace rondo::compat {

namespace {

/// Copies without recording it in autograd, since calls without copies are not recorded either.
void copy(const at::Tensor& from, const at::Tensor& to) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  to.copy_(from);
}

bool usableInPlace(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj();
}

} // namespace

void AfterCall::run(bool well) {
  std::call_once(once_, [&] {
    for (const auto& part : parts) part->run(well);
    if (event) event->end();
    if (well)
      for (const auto& [from, to] : copy_back) copy(from, to);
    copy_back.clear();
    keep.clear();
  });
}

const at::Tensor& Copies::use(const at::Tensor& tensor, bool reads, bool writes) {
  requireStrided(tensor, call_);
  if (usableInPlace(tensor)) return tensor;
  if (writes && at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    refuse(tensor, call_, "elements of an output must not overlap");
  const at::Tensor& made = made_.emplace_back(
      at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous)));
  if (reads) copy(tensor, made);
  if (!after_) after_ = std::make_shared<AfterCall>();
  if (writes) after_->copy_back.emplace_back(made, tensor);
  else after_->keep.push_back(made);
  return made;
}

std::vector<at::Tensor> Copies::read(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> used;
  for (const at::Tensor& tensor : tensors) used.push_back(read(tensor));
  return used;
}

std::vector<at::Tensor> Copies::write(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> used;
  for (const at::Tensor& tensor : tensors) used.push_back(write(tensor));
  return used;
}

} // namespace rondo::compat
