// Checks collectively that all ranks can train, and that they still hold the same model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "rondo/communicator.h"

namespace rondo::training {

/// Collective. Calls prepare(), which returns everything that must be equal on all ranks, one "name
/// value" per line. If prepare() throws on any rank, every rank throws the error of the lowest such
/// rank; the text names that rank unless all ranks have the same error. If the texts differ, every
/// rank throws Error(mismatch), which quotes the first line that differs between two ranks.
void agree(Communicator& comm, const std::function<std::string()>& prepare);

/// Returns the first line in which two texts differ, from each of them. A line begins with its
/// name. If only one text has a line of that name, the result for the other one is "the default
/// NAME".
std::pair<std::string, std::string> firstDifference(const std::string& a, const std::string& b);

/// Collective. If the hashes differ, every rank throws Error(mismatch). Its text begins with `when`
/// and says which ranks have which hash; its culprit is the rank that differs from all others, if
/// there is only one.
void compareHashes(Communicator& comm, std::uint64_t hash, const std::string& when);

} // namespace rondo::training
