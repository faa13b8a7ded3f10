// Checks whether a file that is written at the end of a long run could be written, and whether it
// is another file of the run. Not part of the public API.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

namespace rondo::detail {

/// The file that the path leads to, if it is a symbolic link; else the path. A link to a pipe or
/// device, such as /dev/stdout, stays: only the link can be opened.
inline std::filesystem::path behindLinks(std::filesystem::path path) {
  constexpr int kMostLinks = 40; // the system's limit
  std::error_code ignored;       // opening the file reports what cannot be read
  for (int links = 0; links < kMostLinks && std::filesystem::is_symlink(path, ignored); ++links) {
    if (std::filesystem::is_other(path, ignored)) break;
    path = path.parent_path() / std::filesystem::read_symlink(path, ignored);
  }
  return path;
}

/// Whether both paths name one file, which need not exist yet. A device, such as a terminal or
/// /dev/null, holds nothing that an output could overwrite, so the answer for it is no.
inline bool sameFile(const std::filesystem::path& a, const std::filesystem::path& b) {
  namespace fs = std::filesystem;
  struct stat one {
  }, other{};
  if (::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0)
    return !S_ISCHR(one.st_mode) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
  std::error_code ignored;
  const auto place = [&](const fs::path& path) {
    const fs::path whole = fs::absolute(behindLinks(path), ignored);
    const fs::path known = fs::weakly_canonical(whole, ignored);
    return known.empty() ? whole.lexically_normal() : known; // empty: a folder cannot be read
  };
  return place(a) == place(b);
}

/// Why the file could not be opened for writing; no error: it could be. An existing file keeps its
/// contents and times. Otherwise a file is made for a moment and removed.
inline std::error_code whyNotWritable(const std::filesystem::path& path) {
  const auto reason = [] { return std::error_code(errno, std::generic_category()); };
  const std::string file = behindLinks(path);
  struct stat there {};
  if (::stat(file.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    if (S_ISDIR(there.st_mode)) return std::make_error_code(std::errc::is_a_directory);
    // Opening a pipe would wait for its reader, and closing it would end the reader's input.
    return ::faccessat(AT_FDCWD, file.c_str(), W_OK, AT_EACCESS) == 0 ? std::error_code()
                                                                      : reason();
  }
  int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (opened >= 0) {
    ::unlink(file.c_str());
  } else if (errno == EEXIST) {
    opened = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  }
  if (opened < 0) return reason();
  ::close(opened);
  return {};
}

/// The same for a file in a folder that is made later if it does not exist. Makes no folder.
inline std::error_code whyNotWritableIn(const std::filesystem::path& folder,
                                        const std::filesystem::path& name) {
  std::error_code ignored;
  std::filesystem::path first = folder / name, above = folder;
  while (!above.empty() && !std::filesystem::exists(above, ignored)) {
    first = above;
    above = above.parent_path();
  }
  return whyNotWritable(first);
}

} // namespace rondo::detail
