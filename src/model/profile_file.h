// Reads and writes link profiles as JSON.
#pragma once

#include <string>

#include "model/profile.h"

namespace rondo::model {

/// The number in the files' key "rondo_profile". Files with another number are refused.
inline constexpr int kProfileVersion = 1;

/// Times in microseconds, speeds in GB/s (1e9 bytes per second), sizes in bytes. A curve is a list
/// of [from, GB/s]: the speed of the bytes from there on. Levels are a list of [working set, GB/s].
std::string profileText(const Profile& profile);

/// `file` only names the text in errors. Throws Error(data) "FILE:LINE: reason" for anything that
/// is missing, unknown, of the wrong kind or out of range.
Profile parseProfile(const std::string& text, const std::string& file);

/// Throws the errors of parseProfile(), and Error(data) if the file cannot be read.
Profile readProfile(const std::string& path);

} // namespace rondo::model
