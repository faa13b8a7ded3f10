// Encodes and exchanges the settings, places and addresses of the ranks.
#include "comm/agree.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "base/codec.h"
#include "base/log.h"
#include "comm/pass_rules.h"
#include "topology/place.h"

namespace rondo::comm {

namespace {

constexpr std::size_t kMaxText = 4096;

/// Largest message if no transport limits it: a single rank has none.
constexpr std::size_t kSelfSlotBytes = 256 << 10;

std::vector<std::byte> encode(const RankInfo& info) {
  base::Writer out;
  topology::write(out, info.place);
  out.u64(info.slot_bytes);
  out.u32(static_cast<std::uint32_t>(info.addresses.size()));
  for (const auto& [kind, address] : info.addresses) {
    out.text(kind);
    out.blob(address);
  }
  return out.take();
}

RankInfo decode(std::span<const std::byte> bytes) {
  base::Reader in(bytes, "a rank's address info");
  RankInfo info;
  info.place = topology::readPlace(in);
  info.slot_bytes = in.u64();
  for (std::uint32_t left = in.u32(); left > 0; --left) {
    std::string kind = in.text(64);
    const auto address = in.blob(transport::kMostAddressBytes);
    info.addresses.emplace_back(std::move(kind),
                                transport::Address(address.begin(), address.end()));
  }
  in.finish();
  return info;
}

/// If the ranks' values differ, throws Error(init_failed) with the same text on all ranks.
void requireEqualTls(const std::vector<bool>& tls) {
  const auto other = std::find(tls.begin(), tls.end(), !tls[0]);
  if (other == tls.end()) return;
  throw bootstrap::differentTls(static_cast<int>(other - tls.begin()), *other, 0).error();
}

/// Takes over rank 0's values of the settings that must be equal.
void follow(Options& options, const Options& first) {
  options.algorithm = first.algorithm;
  options.planner = first.planner;
  options.deterministic = first.deterministic;
  options.checksum = first.checksum;
  options.check_reductions = first.check_reductions;
  options.channel_bytes = first.channel_bytes;
  options.channel_depth = first.channel_depth;
  options.trace_folder = first.trace_folder;
}

} // namespace

Agreed agree(bootstrap::Session& session, Options options, const planner::RulesFile* rules) {
  std::vector<std::byte> own_rules;
  if (session.rank() == 0) own_rules = rulesToTell(options.rules_file, rules);
  std::size_t rules_size = 0;
  base::Writer out;
  out.u32(static_cast<std::uint32_t>(own_rules.size()));
  out.u64(options.channel_bytes);
  out.text(options.algorithm);
  out.text(options.planner);
  out.u8(options.deterministic);
  out.u8(options.checksum);
  out.u8(options.check_reductions);
  out.u8(options.tls);
  out.i32(options.channel_depth);
  out.i32(options.device);
  out.text(options.trace_folder);
  out.text(topology::nodeName(options.node));
  Unbound::own().write(out);
  const auto blobs = session.allGather(out.bytes(), options.init_timeout);
  Agreed agreed;
  std::vector<bool> tls;
  for (std::size_t r = 0; r < blobs.size(); ++r) {
    base::Reader in(blobs[r], "a rank's settings");
    Options theirs;
    const std::size_t their_rules = in.u32();
    theirs.channel_bytes = in.u64();
    theirs.algorithm = in.text(kMaxText);
    theirs.planner = in.text(kMaxText);
    theirs.deterministic = in.u8() != 0;
    theirs.checksum = in.u8() != 0;
    theirs.check_reductions = in.u8() != 0;
    tls.push_back(in.u8() != 0);
    theirs.channel_depth = in.i32();
    agreed.devices.push_back(in.i32());
    theirs.trace_folder = in.text(kMaxText);
    agreed.nodes.push_back(in.text(Options::kLongestNode));
    agreed.unbound.push_back(Unbound::read(in));
    in.finish();
    if (r > 0) continue;
    rules_size = their_rules;
    follow(options, theirs);
  }
  requireEqualTls(tls);
  options.rules_file.clear();
  if (rules_size > 0) {
    agreed.rules = passRules(session, own_rules, rules_size, options.init_timeout);
    options.rules_file = agreed.rules->name();
  }
  // A slot must hold one element per rank, otherwise the smallest tile does not fit in a message.
  if (options.channel_bytes > 0) {
    const auto depth =
        static_cast<std::size_t>(options.channel_depth > 0 ? options.channel_depth : 8);
    options.channel_bytes = std::max(options.channel_bytes,
                                     depth * (8 * static_cast<std::size_t>(session.size()) + 64));
  }
  agreed.options = std::move(options);
  return agreed;
}

std::vector<RankInfo> exchangeInfo(bootstrap::Session& session, const Agreed& agreed,
                                   const Transports& transports) {
  RankInfo own;
  own.place = topology::ownPlace(agreed.nodes[static_cast<std::size_t>(session.rank())]);
  base::log(LogLevel::info, "runs on ", topology::text(own.place));
  own.slot_bytes = transports.empty() ? kSelfSlotBytes : transports[0]->slotBytes();
  for (const auto& transport : transports)
    own.slot_bytes = std::min(own.slot_bytes, transport->slotBytes());
  own.addresses = addressesOf(transports);
  std::vector<RankInfo> infos;
  for (const auto& blob : session.allGather(encode(own), agreed.options.init_timeout))
    infos.push_back(decode(blob));
  return infos;
}

} // namespace rondo::comm
