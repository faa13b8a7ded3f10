// Profiles and tables on disk, below $XDG_CACHE_HOME/rondo (default: ~/.cache/rondo).
#pragma once

#include <optional>
#include <string>

#include "model/profile.h"
#include "planner/choose.h"
#include "planner/table.h"

namespace rondo::planner {

/// Where `rondo tune` stores the profile of this machine, and where Rondo finds it. Empty if there
/// is no folder for it: neither XDG_CACHE_HOME nor HOME is an absolute path.
std::string profilePath(const std::string& machine = model::machineKey());

/// Makes the folders of a path in the cache, and replaces the file at once, so that no reader sees
/// a part of it. False, with the reason in errno, if that is not possible.
bool replaceFile(const std::string& path, const std::string& text);

/// The profile to predict with: the one at `named` (Options::profile); if that is empty, the one
/// that `rondo tune` stored for this machine; else the default one. A named file that cannot be
/// used is Error(data) "FILE:LINE: reason". A stored one that is damaged or foreign is logged as a
/// warning, once per process, and not used.
model::Profile usedProfile(const std::string& named);

/// The key of a cached table, one line of text: it names the profile and the ranks, on which the
/// table depends. (It also depends on the library's version, which the file's first line tells.)
std::string tableKey(int ranks, const Policy& policy, const std::string& profile_text);

/// Nothing if there is no table for the key, or it is damaged, which is logged.
std::optional<Table> loadTable(const std::string& key);
/// Does nothing if the folder cannot be written.
void storeTable(const std::string& key, const Table& table);

} // namespace rondo::planner
