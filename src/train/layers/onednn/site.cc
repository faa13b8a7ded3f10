// Hands out tensors, and one scratchpad as large as the most demanding primitive wants it.
#include "train/layers/onednn/site.h"

#include <array>

namespace rondo::training::onednn {

namespace {

using Tag = dnnl::memory::format_tag;

Layout withTag(const Dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::f32, tag}; }

} // namespace

Site::Site(const Binding& binding)
    : binding_(binding), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

Tensor Site::tensor(const Layout& layout) {
  memory_.emplace_back(layout.get_size());
  return {layout, engine_, memory_.back().data()};
}

Tensor Site::scratch(const Layout& layout) {
  scratch_users_.emplace_back(layout, engine_, nullptr);
  if (layout.get_size() > scratch_.size()) scratch_.resize(layout.get_size());
  for (Tensor& user : scratch_users_) user.set_data_handle(scratch_.data());
  return scratch_users_.back();
}

Layout plain(const Dims& dims) {
  constexpr std::array kTags = {Tag::a, Tag::ab, Tag::abc, Tag::abcd};
  return withTag(dims, kTags[dims.size() - 1]);
}

Layout any(const Dims& dims) { return withTag(dims, Tag::any); }

} // namespace rondo::training::onednn
