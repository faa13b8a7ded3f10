// Computes decisions on rank 0, and passes them to all ranks.
#include "comm/decisions.h"

#include <algorithm>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/codec.h"
#include "base/log.h"
#include "model/profile_file.h"
#include "planner/decide.h"
#include "planner/stored.h"
#include "planner/table.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

constexpr std::size_t kMostTableText = 12 << 10, kMostReason = 2048;

model::LinkClass classOf(std::string_view transport, bool same_machine) {
  if (!same_machine) return model::LinkClass::network;
  if (transport == "inproc") return model::LinkClass::inproc;
  if (transport == "ucx") return model::LinkClass::ucx;
  return transport == "tcp" ? model::LinkClass::loopback : model::LinkClass::shm;
}

/// What a rank tells the others.
struct Told {
  std::string error;   ///< why it has no profile
  std::string profile; ///< a hash of it
  std::string table;   ///< of rank 0

  std::vector<std::byte> encode() const {
    base::Writer out;
    out.text(error);
    out.text(profile);
    out.text(table);
    return out.take();
  }
  static Told decode(std::span<const std::byte> bytes) {
    base::Reader in(bytes, "a rank's decisions");
    Told told;
    told.error = in.text(kMostReason);
    told.profile = in.text(kMostReason);
    told.table = in.text(kMostTableText);
    in.finish();
    return told;
  }
};

std::string tableOf(int ranks, const planner::Policy& policy, const model::Profile& profile,
                    const std::string& key) {
  if (const auto kept = planner::loadTable(key)) return kept->text();
  const auto from = std::chrono::steady_clock::now();
  const planner::Table table = planner::decide(ranks, policy, profile);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - from;
  base::log(LogLevel::info, "decisions for ", key, " took ", took.count(), " ms");
  planner::storeTable(key, table);
  return table.text();
}

Told tell(const bootstrap::Session& session, const Options& options,
          const planner::Policy& policy) {
  Told told;
  try {
    const model::Profile profile = planner::usedProfile(options.profile);
    const std::string text = model::profileText(profile);
    told.profile = std::to_string(std::hash<std::string>()(text));
    if (session.rank() == 0)
      told.table =
          tableOf(session.size(), policy, profile, planner::tableKey(session.size(), policy, text));
  } catch (const Error& error) {
    told.error = std::string(error.what()).substr(0, kMostReason);
  }
  return told;
}

} // namespace

planner::Site siteOf(const engine::Fabric& fabric, const std::vector<Place>& places, int own,
                     std::size_t processors, std::size_t message_bytes) {
  planner::Site site{.message_bytes = message_bytes};
  const Place& here = places[static_cast<std::size_t>(own)];
  std::size_t beside = 0, of_node = 0; // ranks
  for (std::size_t r = 0; r < places.size(); ++r) {
    const bool same_machine = places[r].machine == here.machine;
    beside += same_machine;
    of_node += places[r].node == here.node;
    if (static_cast<int>(r) == own) continue;
    (places[r].node == here.node ? site.inside : site.between) =
        classOf(fabric.transportTo(static_cast<int>(r)), same_machine);
  }
  if (processors < beside) // the share of this node, if several nodes are on this machine
    site.processors = static_cast<int>(std::max<std::size_t>(processors * of_node / beside, 1));
  return site;
}

std::shared_ptr<const planner::Table> agreeOnTable(bootstrap::Session& session,
                                                   const Options& options,
                                                   const planner::Policy& policy) {
  if (options.planner != "model" || policy.devices || session.size() < 2 ||
      session.size() > planner::kMostDecidedRanks)
    return nullptr;
  std::vector<Told> all;
  for (const auto& blob :
       session.allGather(tell(session, options, policy).encode(), options.init_timeout))
    all.push_back(Told::decode(blob));
  for (std::size_t r = 0; r < all.size(); ++r)
    if (!all[r].error.empty())
      throw Error(ErrorCode::data, "rank " + std::to_string(r) + ": " + all[r].error);
  for (std::size_t r = 1; r < all.size() && session.rank() == 0; ++r) {
    if (all[r].profile == all[0].profile) continue;
    base::log(LogLevel::warn, "the link profiles of rank 0 and rank ", r,
              " differ; all ranks use the decisions of rank 0's");
    break;
  }
  auto table =
      std::make_shared<planner::Table>(planner::Table::parse(all[0].table, "rank 0's decisions"));
  return table->empty() ? nullptr : std::move(table);
}

} // namespace rondo::comm
