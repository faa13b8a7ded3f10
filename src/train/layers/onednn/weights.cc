// Packs a weight once per change of its values, and unpacks a gradient once per backward pass.
#include "train/layers/onednn/weights.h"

namespace rondo::training::onednn {

Packed::Packed(Site& site, const Weight& weight, const Layout& plain, const Layout& wanted)
    : site_(&site),
      weight_(&weight),
      plain_(site.view(plain)),
      packed_(plain_),
      copied_(plain != wanted) {
  if (!copied_) return;
  packed_ = site.tensor(wanted, site.binding().weights_stay ? Lifetime::kept : Lifetime::passing);
  pack_ = reorder(site, plain_, packed_);
}

void Packed::refresh() {
  const std::uint64_t now = *site_->binding().version;
  if (copied_ && site_->binding().weights_stay && version_ == now) return;
  plain_.set_data_handle(weight_->value);
  pack_.run();
  version_ = now;
}

Unpacked::Unpacked(Site& site, const Weight& weight, const Layout& plain, const Layout& made)
    : weight_(&weight), plain_(site.view(plain)), made_(plain_) {
  if (plain == made) return;
  made_ = site.tensor(made, Lifetime::passing);
  unpack_ = reorder(site, made_, plain_);
}

void Unpacked::aim() { plain_.set_data_handle(weight_->gradient); }

} // namespace rondo::training::onednn
