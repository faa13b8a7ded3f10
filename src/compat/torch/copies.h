// Contiguous copies that stand in for tensors that Rondo cannot use where they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "compat/torch/profile.h"

namespace rondo::compat {

/// What remains to be done when a call has ended. It keeps what the call uses until then.
class AfterCall {
 public:
  /// Once, whichever thread comes first; the others wait for it. `well`: outputs are written only
  /// then.
  void run(bool well);

  std::vector<std::pair<at::Tensor, at::Tensor>> copy_back; ///< from, to
  std::vector<at::Tensor> keep;                             ///< what the call reads
  std::shared_ptr<void> memory;                             ///< what else it reads
  std::vector<std::shared_ptr<AfterCall>> parts;            ///< of coalesced calls
  std::shared_ptr<ProfilerEvent> event;

 private:
  std::once_flag once_;
};

/// The copies of one call. A tensor that is dense and contiguous is used where it is. Of another
/// strided one (transposed, channels_last, a column, a lazily negated or conjugated view) a
/// contiguous copy takes the place: elements go in the order of the indices, so ranks may have
/// different strides. Throws ValueError that names `call` for tensors that are not strided, and for
/// outputs whose elements overlap.
class Copies {
 public:
  explicit Copies(const char* call) : call_(call) {}

  /// Returns what Rondo reads, writes, or reads and writes in place of the tensor.
  const at::Tensor& read(const at::Tensor& tensor) { return use(tensor, true, false); }
  const at::Tensor& write(const at::Tensor& tensor) { return use(tensor, false, true); }
  const at::Tensor& update(const at::Tensor& tensor) { return use(tensor, true, true); }
  std::vector<at::Tensor> read(const std::vector<at::Tensor>& tensors);
  std::vector<at::Tensor> write(const std::vector<at::Tensor>& tensors);

  /// Null where nothing was copied.
  const std::shared_ptr<AfterCall>& after() const { return after_; }

 private:
  const at::Tensor& use(const at::Tensor& tensor, bool reads, bool writes);

  const char* const call_;
  std::shared_ptr<AfterCall> after_;
  std::deque<at::Tensor> made_;
};

} // namespace rondo::compat
