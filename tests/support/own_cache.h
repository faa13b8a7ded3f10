// A cache folder and a log of a test's own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/log.h"
#include "tests/tools/shell.h"

namespace rondo::test {

/// While it lives, Rondo's cache is in a folder of its own, and the log in its file "log".
class OwnCache {
 public:
  OwnCache() {
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    ::setenv("XDG_CACHE_HOME", file("cache").c_str(), 1);
    base::configureLog(LogLevel::info, file("log"));
  }
  ~OwnCache() {
    base::configureLog(LogLevel::warn, "");
    before_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before_.c_str(), 1);
  }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

  std::string file(const std::string& name) const { return folder_.file(name); }
  int logged(const std::string& word) const { return countOf(readFile(file("log")), word); }
  /// The files of decisions.
  std::vector<std::filesystem::path> tables() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(file("cache/rondo")))
      if (entry.path().filename().string().starts_with("decisions-")) found.push_back(entry);
    return found;
  }

 private:
  TemporaryFolder folder_;
  std::string before_;
};

} // namespace rondo::test
