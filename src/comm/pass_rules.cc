// Cuts a rules file into pieces that the control plane carries, and parses it on each rank.
#include "comm/pass_rules.h"

#include <algorithm>

#include "base/codec.h"
#include "bootstrap/ledger.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

constexpr std::size_t kMostName = 4096, kMostReason = 2 * kMostName;
constexpr std::size_t kMostTold = kMostName + kMostReason + planner::RulesFile::kMostBytes + 64;

} // namespace

std::vector<std::byte> rulesToTell(const std::string& path, const planner::RulesFile* known) {
  if (!known && path.empty()) return {};
  base::Writer out;
  try {
    const planner::RulesFile file = known ? *known : planner::RulesFile::read(path);
    out.text(""); // no error
    out.text(file.name());
    out.text(file.text());
  } catch (const Error& error) {
    out.text(std::string(error.what()).substr(0, kMostReason));
  }
  return out.take();
}

std::shared_ptr<const planner::RulesFile> passRules(bootstrap::Session& session,
                                                    std::span<const std::byte> own,
                                                    std::size_t size,
                                                    std::chrono::milliseconds limit) {
  std::vector<std::byte> told;
  base::Reader in({}, "rank 0's rules file");
  if (size > kMostTold) in.fail("is too long");
  while (told.size() < size) {
    const std::size_t piece = std::min(size - told.size(), bootstrap::kBlobBytes);
    const auto blobs = session.allGather(own.empty() ? own : own.subspan(told.size(), piece),
                                         limit); // only rank 0 has any
    if (blobs[0].size() != piece) in.fail("arrives in pieces of a wrong size");
    told.insert(told.end(), blobs[0].begin(), blobs[0].end());
  }
  in = base::Reader(told, "rank 0's rules file");
  if (const std::string error = in.text(kMostReason); !error.empty())
    throw Error(ErrorCode::data, "rank 0: " + error);
  std::string name = in.text(kMostName);
  std::string text = in.text(planner::RulesFile::kMostBytes);
  in.finish();
  return std::make_shared<planner::RulesFile>(
      planner::RulesFile::parse(std::move(text), std::move(name)));
}

} // namespace rondo::comm
