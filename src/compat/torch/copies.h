// Contiguous copies that replace tensors that Rondo cannot use in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "compat/torch/profile.h"

namespace rondo::compat {

/// The work that remains when a call has ended. Keeps the memory that the call uses until then.
class AfterCall {
 public:
  /// Runs once: in the first thread that calls it, while other threads wait. `well`: the call
  /// succeeded; outputs are written only then.
  void run(bool well);

  std::vector<std::pair<at::Tensor, at::Tensor>> copy_back; ///< from, to
  std::vector<at::Tensor> keep;                             ///< tensors that the call reads
  std::shared_ptr<void> memory;                             ///< other memory that the call reads
  std::vector<std::shared_ptr<AfterCall>> parts;            ///< one for each coalesced call
  std::shared_ptr<ProfilerEvent> event;

 private:
  std::once_flag once_;
};

/// The copies of one call. A dense, contiguous tensor is used in place. Any other strided tensor
/// (transposed, channels_last, a column, a lazily negated or conjugated view) is replaced by a
/// contiguous copy. Elements are sent in the order of the indices, so ranks may have different
/// strides. Throws ValueError that names `call` for tensors that are not strided, and for outputs
/// whose elements overlap.
class Copies {
 public:
  explicit Copies(const char* call) : call_(call) {}

  /// Each returns the tensor that Rondo uses instead of the argument: to read, to write, or both.
  const at::Tensor& read(const at::Tensor& tensor) { return use(tensor, true, false); }
  const at::Tensor& write(const at::Tensor& tensor) { return use(tensor, false, true); }
  const at::Tensor& update(const at::Tensor& tensor) { return use(tensor, true, true); }
  std::vector<at::Tensor> read(const std::vector<at::Tensor>& tensors);
  std::vector<at::Tensor> write(const std::vector<at::Tensor>& tensors);

  /// Null if nothing was copied.
  const std::shared_ptr<AfterCall>& after() const { return after_; }

 private:
  const at::Tensor& use(const at::Tensor& tensor, bool reads, bool writes);

  const char* const call_;
  std::shared_ptr<AfterCall> after_;
  std::deque<at::Tensor> made_;
};

} // namespace rondo::compat
