// Primitives bound to their tensors, so that a pass only runs them.
#pragma once

#include <utility>
#include <vector>

#include "train/layers/onednn/site.h"

namespace rondo::training::onednn {

/// An argument's name (DNNL_ARG_...) and its tensor.
using Arguments = std::vector<std::pair<int, Tensor>>;

/// One primitive with its tensors; does nothing if made without.
class Op {
 public:
  Op() = default;
  /// `Description` is the primitive_desc of `Primitive`.
  template <class Primitive>
  static Op of(Site& site, const typename Primitive::primitive_desc& description,
               Arguments arguments) {
    const Layout scratch = description.scratchpad_desc();
    if (scratch.get_size() > 0) arguments.emplace_back(DNNL_ARG_SCRATCHPAD, site.scratch(scratch));
    return Op(site, Primitive(description), std::move(arguments));
  }

  /// Throws Error(system) if oneDNN cannot.
  void run() const;

 private:
  Op(Site& site, dnnl::primitive primitive, Arguments arguments);

  Site* site_ = nullptr;
  dnnl::primitive primitive_;
  Arguments tensors_; ///< kept alive
  std::vector<dnnl_exec_arg_t> arguments_;
};

/// For every primitive: its passing needs come from Site::scratch().
dnnl::primitive_attr attributes();
/// The same, and ReLU behind it.
dnnl::primitive_attr attributes(bool relu);

/// Copies from one layout into the other.
Op reorder(Site& site, const Tensor& from, const Tensor& to);

/// The tensor as a primitive wants it: itself, or a copy that the op makes.
struct Converted {
  Converted(Site& site, const Tensor& from, const Layout& wanted, Lifetime lifetime);

  Tensor tensor;
  Op convert;
};

} // namespace rondo::training::onednn
