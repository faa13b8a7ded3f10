// The place where a program's layers are built: oneDNN's engine and stream, and the memory of all
// tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "train/aligned.h"
#include "train/layers/program.h"

namespace rondo::training::onednn {

/// A tensor is a oneDNN memory object: values in a layout. The Site owns the memory of a program's
/// internal tensors.
using Tensor = dnnl::memory;
using Layout = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;

/// How long the values of a tensor are needed. kept: always. passing: until the next layers have
/// used them. forward: like kept in training, where the backward pass needs them, otherwise like
/// passing.
enum class Lifetime { kept, passing, forward };

/// Returns a lock to hold while a primitive is created, which is rare. oneDNN shares primitives
/// between threads and synchronises that itself, but the thread sanitizer cannot see how, and would
/// report races.
std::unique_lock<std::mutex> making();

/// oneDNN's engine and stream, and the memory of the tensors, for the layers of one model. It must
/// outlive these layers and tensors.
class Site {
 public:
  explicit Site(const Binding& binding);
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  const Binding& binding() const { return binding_; }
  const dnnl::engine& engine() const { return engine_; }
  dnnl::stream& stream() { return stream_; }
  /// The type of the values that convolutions and linear layers multiply, and of the outputs of
  /// convolutions.
  Type multiplied() const {
    return binding_.precision == Precision::bfloat16 ? Type::bf16 : Type::f32;
  }

  /// A tensor with memory of this lifetime.
  Tensor tensor(const Layout& layout, Lifetime lifetime);
  /// release() declares that passing tensors made since mark() are no longer used, except `result`:
  /// later tensors may reuse their memory. Layers must run in the order in which they are built.
  std::uint64_t mark() const { return made_; }
  void release(std::uint64_t mark, const Tensor& result);
  /// A tensor without memory of its own.
  Tensor view(const Layout& layout) { return {layout, engine_, nullptr}; }
  /// The scratchpad of a primitive: all primitives share the same memory.
  Tensor scratch(const Layout& layout);

 private:
  Binding binding_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  struct Buffer {
    AlignedBytes memory;
    std::uint64_t used_since; ///< the number of the tensor that uses it; 0: free
  };

  Tensor passing(const Layout& layout);

  std::deque<AlignedBytes> kept_;
  std::deque<Buffer> passing_;
  std::uint64_t made_ = 0; ///< number of passing tensors so far
  AlignedBytes scratch_;
  std::vector<Tensor> scratch_users_;
};

/// Row-major: [count x features], or [count x channels x height x width].
Layout plain(const Dims& dims, Type type = Type::f32);
/// The primitive may choose the layout.
Layout any(const Dims& dims, Type type = Type::f32);

} // namespace rondo::training::onednn
