// Ranks find out together whether they can train, and whether they still hold the same model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "rondo/communicator.h"

namespace rondo::training {

/// Collective. Calls prepare(), which gives what must be equal on all ranks, one "name value" a
/// line. If it throws on any rank, every rank throws that error (the lowest such rank's, and named
/// unless all ranks say the same). If the texts differ, every rank throws Error(mismatch) that
/// quotes the first differing line of two ranks.
void agree(Communicator& comm, const std::function<std::string()>& prepare);

/// The first line in which the two texts differ, of both. A line begins with its name; one that
/// only the other text has is said to be the default.
std::pair<std::string, std::string> firstDifference(const std::string& a, const std::string& b);

/// Collective. If the hashes differ, every rank throws Error(mismatch) that says which ranks hold
/// which, beginning with `when`; its culprit is the one rank that differs from all others, if so.
void compareHashes(Communicator& comm, std::uint64_t hash, const std::string& when);

} // namespace rondo::training
