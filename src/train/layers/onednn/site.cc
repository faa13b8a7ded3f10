// Allocates tensors, and one scratchpad that is large enough for every primitive.
#include "train/layers/onednn/site.h"

#include <array>

namespace rondo::training::onednn {

std::unique_lock<std::mutex> making() {
  static std::mutex mutex;
  return std::unique_lock(mutex);
}

Site::Site(const Binding& binding)
    : binding_(binding), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

Tensor Site::tensor(const Layout& layout, Lifetime lifetime) {
  if (lifetime == Lifetime::passing || (lifetime == Lifetime::forward && !binding_.training))
    return passing(layout);
  kept_.emplace_back(layout.get_size());
  return {layout, engine_, kept_.back().data()};
}

Tensor Site::passing(const Layout& layout) {
  const std::size_t bytes = layout.get_size();
  Buffer* best = nullptr;
  for (Buffer& buffer : passing_)
    if (buffer.used_since == 0 && buffer.memory.size() >= bytes &&
        (best == nullptr || buffer.memory.size() < best->memory.size()))
      best = &buffer;
  if (best == nullptr) best = &passing_.emplace_back(Buffer{AlignedBytes(bytes), 0});
  best->used_since = ++made_;
  return {layout, engine_, best->memory.data()};
}

void Site::release(std::uint64_t mark, const Tensor& result) {
  const void* kept = result ? result.get_data_handle() : nullptr;
  for (Buffer& buffer : passing_)
    if (buffer.used_since > mark && buffer.memory.data() != kept) buffer.used_since = 0;
}

Tensor Site::scratch(const Layout& layout) {
  scratch_users_.emplace_back(layout, engine_, nullptr);
  if (layout.get_size() > scratch_.size()) scratch_ = AlignedBytes(layout.get_size());
  for (Tensor& user : scratch_users_) user.set_data_handle(scratch_.data());
  return scratch_users_.back();
}

Layout plain(const Dims& dims, Type type) {
  using Tag = dnnl::memory::format_tag;
  constexpr std::array kTags = {Tag::a, Tag::ab, Tag::abc, Tag::abcd};
  return {dims, type, kTags[dims.size() - 1]};
}

Layout any(const Dims& dims, Type type) { return {dims, type, dnnl::memory::format_tag::any}; }

} // namespace rondo::training::onednn
