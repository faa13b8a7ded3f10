// Where a program's layers are built: oneDNN's engine and stream, and the memory of all tensors.
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

/// A tensor is oneDNN's memory: values in a layout. Those of a program's insides are its Site's.
using Tensor = dnnl::memory;
using Layout = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;

/// How long a tensor's values are needed: for good, until they have passed through the next layers,
/// or, on the way forward, for good in training, where the way back needs them.
enum class Lifetime { kept, passing, forward };

/// Held while primitives are made, which is rarely. oneDNN shares them over the threads of a
/// process and keeps the threads apart by itself, but in a way that the thread sanitizer cannot
/// see.
std::unique_lock<std::mutex> making();

/// Lives as long as what is built on it.
class Site {
 public:
  explicit Site(const Binding& binding);
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  const Binding& binding() const { return binding_; }
  const dnnl::engine& engine() const { return engine_; }
  dnnl::stream& stream() { return stream_; }
  /// The type of the values that convolutions and linear layers multiply, and of those that
  /// convolutions make.
  Type multiplied() const {
    return binding_.precision == Precision::bfloat16 ? Type::bf16 : Type::f32;
  }

  /// A tensor with memory, for as long as is said.
  Tensor tensor(const Layout& layout, Lifetime lifetime);
  /// Passing tensors that were made since a mark() are used no more behind here, but for `result`:
  /// the next ones may have their memory. Layers must run in the order in which they are built.
  std::uint64_t mark() const { return made_; }
  void release(std::uint64_t mark, const Tensor& result);
  /// One without, for memory of others.
  Tensor view(const Layout& layout) { return {layout, engine_, nullptr}; }
  /// For a primitive's passing needs: all have the same memory.
  Tensor scratch(const Layout& layout);

 private:
  Binding binding_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  struct Buffer {
    AlignedBytes memory;
    std::uint64_t used_since; ///< the number of its tensor; 0: free
  };

  Tensor passing(const Layout& layout);

  std::deque<AlignedBytes> kept_;
  std::deque<Buffer> passing_;
  std::uint64_t made_ = 0; ///< passing tensors so far
  AlignedBytes scratch_;
  std::vector<Tensor> scratch_users_;
};

/// Row by row: [count x features], or [count x channels x height x width].
Layout plain(const Dims& dims, Type type = Type::f32);
/// Any that the primitive likes best.
Layout any(const Dims& dims, Type type = Type::f32);

} // namespace rondo::training::onednn
