// Passes rank 0's rules file to all ranks when a communicator is opened.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/session.h"
#include "planner/rules_file.h"

namespace rondo::comm {

/// What rank 0 tells of its rules: `known`, or if that is null, those in the file, or why the file
/// cannot be used. Empty if there are none: no path.
std::vector<std::byte> rulesToTell(const std::string& path, const planner::RulesFile* known);

/// Collective, if rank 0 has rules to tell. `own`: what rulesToTell() returned on rank 0. `size`:
/// its size, on all ranks. Throws Error(data) on all ranks if rank 0 cannot use its file.
std::shared_ptr<const planner::RulesFile> passRules(bootstrap::Session& session,
                                                    std::span<const std::byte> own,
                                                    std::size_t size,
                                                    std::chrono::milliseconds limit);

} // namespace rondo::comm
