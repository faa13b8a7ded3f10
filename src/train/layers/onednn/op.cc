// Runs primitives that are bound to their tensors.
#include "train/layers/onednn/op.h"

#include <string>

#include "base/no_signals.h"
#include "rondo/error.h"
#include "train/layers/onednn/describe.h"

namespace rondo::training::onednn {

Op::Op(Site& site, dnnl::primitive primitive, Arguments arguments)
    : site_(&site), primitive_(std::move(primitive)), tensors_(std::move(arguments)) {
  for (const auto& [name, tensor] : tensors_) arguments_.push_back({name, tensor.get()});
}

void Op::run() const {
  if (site_ == nullptr) return;
  const dnnl_status_t status = [&] {
    // Some compiled kernels of oneDNN use the stack pointer as a general register. A signal handler
    // that ran on that stack would overwrite tensors. So signals are blocked until the kernel has
    // returned.
    const base::NoSignals until_done;
    return dnnl_primitive_execute(primitive_.get(), site_->stream().get(),
                                  static_cast<int>(arguments_.size()), arguments_.data());
  }();
  if (status != dnnl_success) {
    throw Error(ErrorCode::system,
                "oneDNN could not run a layer: status " + std::to_string(status));
  }
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr result;
  result.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return result;
}

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr result = attributes();
  if (!relu) return result;
  dnnl::post_ops after;
  appendRelu(after);
  result.set_post_ops(after);
  return result;
}

Op reorder(Site& site, const Tensor& from, const Tensor& to) {
  return Op::of<dnnl::reorder>(
      site, {site.engine(), from.get_desc(), site.engine(), to.get_desc(), attributes()},
      {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Converted::Converted(Site& site, const Tensor& from, const Layout& wanted, Lifetime lifetime)
    : tensor(from) {
  if (from.get_desc() == wanted) return;
  tensor = site.tensor(wanted, lifetime);
  convert = reorder(site, from, tensor);
}

} // namespace rondo::training::onednn
