// Fits a profile to the channels that the ranks have.
#include "planner/site.h"

#include <utility>

namespace rondo::planner {

SiteNetwork::SiteNetwork(const Site& site, model::Profile profile)
    : profile_(std::move(profile)),
      network_{.profile = &profile_,
               .inside = site.inside,
               .between = site.between,
               .processors = site.processors,
               .conditions = {}} {
  if (site.message_bytes == 0) return;
  for (const model::LinkClass used : {site.inside, site.between})
    if (auto& link = profile_.links[static_cast<std::size_t>(used)])
      link->slot_bytes = static_cast<double>(site.message_bytes);
}

} // namespace rondo::planner
