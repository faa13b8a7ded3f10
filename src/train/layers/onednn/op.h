// Binds primitives to their tensors, so that a pass only runs them.
#pragma once

#include <utility>
#include <vector>

#include "train/layers/onednn/site.h"

namespace rondo::training::onednn {

/// Pairs of an argument's name (DNNL_ARG_...) and its tensor.
using Arguments = std::vector<std::pair<int, Tensor>>;

/// A primitive with its tensors. A default-constructed Op does nothing.
class Op {
 public:
  Op() = default;
  /// Creates the primitive and, if it needs some, its scratch memory.
  template <class Primitive>
  static Op of(Site& site, const typename Primitive::primitive_desc& description,
               Arguments arguments) {
    const Layout scratch = description.scratchpad_desc();
    if (scratch.get_size() > 0) arguments.emplace_back(DNNL_ARG_SCRATCHPAD, site.scratch(scratch));
    return Op(site, Primitive(description), std::move(arguments));
  }

  /// Throws Error(system) if oneDNN reports an error.
  void run() const;

 private:
  Op(Site& site, dnnl::primitive primitive, Arguments arguments);

  Site* site_ = nullptr;
  dnnl::primitive primitive_;
  Arguments tensors_; ///< keeps the tensors alive
  std::vector<dnnl_exec_arg_t> arguments_;
};

/// Attributes of every primitive: its scratchpad comes from Site::scratch().
dnnl::primitive_attr attributes();
/// The same, with a ReLU after the primitive if `relu`.
dnnl::primitive_attr attributes(bool relu);

/// Copies from one layout to the other.
Op reorder(Site& site, const Tensor& from, const Tensor& to);

/// A tensor in the layout that a primitive wants: the original, or a copy that `convert` makes.
struct Converted {
  Converted(Site& site, const Tensor& from, const Layout& wanted, Lifetime lifetime);

  Tensor tensor;
  Op convert;
};

} // namespace rondo::training::onednn
