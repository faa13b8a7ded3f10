// Finds, reads and writes the files of the cache.
#include "planner/stored.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>

#include "base/log.h"
#include "base/read_file.h"
#include "base/unique_fd.h"
#include "model/profile_file.h"
#include "plan/layout.h"
#include "rondo/error.h"

namespace rondo::planner {

namespace {

/// Changes when the same key no longer gives the same table: a change of the model, of the rules,
/// of an algorithm's plans, or of how tables are computed. Files of other versions are not used.
constexpr int kTableVersion = 6;

/// FNV-1a, in hexadecimal digits.
std::string hashText(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

std::string folder() {
  const auto absolute = [](const char* variable) -> std::string {
    const char* value = std::getenv(variable);
    return value && *value == '/' ? value : "";
  };
  if (const std::string cache = absolute("XDG_CACHE_HOME"); !cache.empty()) return cache + "/rondo";
  const std::string home = absolute("HOME");
  return home.empty() ? "" : home + "/.cache/rondo";
}

std::string tablePath(const std::string& key) {
  const std::string in = folder();
  return in.empty() ? "" : in + "/decisions-" + hashText(key) + ".txt";
}

std::string tableFile(const std::string& key, const std::string& rows) {
  return "rondo decisions " + std::to_string(kTableVersion) + "\n" + key + "\n" + rows + "end " +
         hashText(key + rows) + "\n";
}

/// Makes a new file with this text. `path` must end in "XXXXXX"; mkostemp() replaces these letters
/// so that the name is not in use.
bool writeNew(std::string& path, const std::string& text) {
  const base::UniqueFd fd = base::UniqueFd::of([&] { return ::mkostemp(path.data(), O_CLOEXEC); });
  if (!fd) return false;
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t wrote = ::write(fd.get(), left.data(), left.size());
    if (wrote < 0 && errno != EINTR) return false;
    left.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(wrote, 0)));
  }
  return true;
}

/// Programs make many communicators.
void warnOnce(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  if (!base::logs(LogLevel::warn)) return;
  const std::lock_guard lock(mutex);
  if (said.insert(text).second) base::log(LogLevel::warn, text);
}

} // namespace

std::string profilePath(const std::string& machine) {
  const std::string in = folder();
  return in.empty() ? "" : in + "/profile-" + hashText(machine) + ".json";
}

bool replaceFile(const std::string& path, const std::string& text) {
  if (path.empty()) {
    errno = ENOENT;
    return false;
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  std::string part = path + ".XXXXXX";
  if (writeNew(part, text) && ::rename(part.c_str(), path.c_str()) == 0) return true;
  const int reason = errno;
  ::unlink(part.c_str());
  errno = reason;
  return false;
}

model::Profile usedProfile(const std::string& named) {
  if (!named.empty()) {
    model::Profile profile = model::readProfile(named);
    if (const std::string why = model::foreign(profile); !why.empty()) warnOnce(why);
    return profile;
  }
  static const std::string here = model::machineKey();
  const std::string path = profilePath(here);
  const auto text = path.empty() ? std::nullopt : base::readFile(path);
  if (!text) return model::defaultProfile();
  try {
    model::Profile profile = model::parseProfile(*text, path);
    const std::string why = model::foreign(profile, here);
    if (why.empty()) return profile;
    warnOnce(path + ": " + why + "; the default profile is used");
  } catch (const Error& error) {
    warnOnce(std::string(error.what()) + "; the default profile is used");
  }
  return model::defaultProfile();
}

std::string tableKey(int ranks, const Policy& policy, const std::string& profile_text) {
  const Site& site = policy.site;
  return "profile " + hashText(profile_text) + ", " + std::to_string(ranks) + " ranks, layout '" +
         plan::text(policy.layout) + "', links " + std::string(model::name(site.inside)) + " " +
         std::string(model::name(site.between)) + ", processors " +
         std::to_string(site.processors) + ", messages " + std::to_string(site.message_bytes) +
         (policy.oversubscribed ? ", oversubscribed" : "") +
         (policy.network_channels ? ", network channels" : "") +
         (policy.deterministic ? ", deterministic" : "");
}

std::optional<Table> loadTable(const std::string& key) {
  const std::string path = tablePath(key);
  const auto text = path.empty() ? std::nullopt : base::readFile(path);
  if (!text) return {};
  const std::string head = "rondo decisions " + std::to_string(kTableVersion) + "\n" + key + "\n";
  const std::size_t end = text->rfind("end ");
  if (!text->starts_with(head) || end == text->npos || end < head.size() ||
      tableFile(key, text->substr(head.size(), end - head.size())) != *text) {
    base::log(LogLevel::info, path, ": damaged or outdated, so it is computed again");
    return {};
  }
  try {
    return Table::parse(std::string_view(*text).substr(head.size(), end - head.size()), path);
  } catch (const Error& error) { // an algorithm that this version does not have
    base::log(LogLevel::info, error.what(), ", so it is computed again");
    return {};
  }
}

void storeTable(const std::string& key, const Table& table) {
  const std::string path = tablePath(key);
  if (path.empty() || replaceFile(path, tableFile(key, table.text()))) return;
  base::log(LogLevel::info, path, ": decisions are not kept: ",
            std::error_code(errno, std::generic_category()).message());
}

} // namespace rondo::planner
