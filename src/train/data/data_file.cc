// Reads files through zlib, which passes uncompressed data through unchanged.
#include "train/data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/above_streams.h"
#include "rondo/error.h"

namespace rondo::training {

namespace {

constexpr std::size_t kReadBytes = 1U << 20;

enum class Found { nothing, folder, file };

Found look(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return Found::nothing;
  return S_ISDIR(status.st_mode) ? Found::folder : Found::file;
}

constexpr const char* kCompressed = ".gz";

/// Paths with and without .gz, in the order of the search.
std::vector<std::string> variants(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    all.push_back(path + kCompressed);
    all.push_back(path);
  }
  return all;
}

/// Returns the first path that is a file, else the first that is a folder; "" if there is none.
std::string pathOf(const std::vector<std::string>& paths) {
  const std::vector<std::string> all = variants(paths);
  for (const Found wanted : {Found::file, Found::folder})
    for (const std::string& path : all)
      if (look(path) == wanted) return path;
  return {};
}

std::string nameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

} // namespace

void DataFile::Close::operator()(gzFile_s* file) const { gzclose_r(file); }

DataFile::DataFile(const std::vector<std::string>& paths) : path_(pathOf(paths)) {
  if (path_.empty()) {
    const std::string why = std::generic_category().message(errno);
    path_ = paths.front();
    std::string others;
    for (const std::string& path : variants(paths))
      if (path != path_) others += (others.empty() ? "" : ", ") + nameOf(path);
    fail(why + "; looked for " + others + " too");
  }
  const bool compressed = path_.ends_with(kCompressed);
  errno = 0;
  const int fd = base::aboveStreams(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd >= 0) file_.reset(gzdopen(fd, "rb"));
  if (fd >= 0 && file_ == nullptr) ::close(fd);
  if (file_ == nullptr) fail(errno == 0 ? "out of memory" : std::generic_category().message(errno));
  gzbuffer(file_.get(), 128 << 10);
  // zlib has read the first bytes now. gzdirect() is also true for an empty file or a folder, so
  // the first byte is read too.
  if (compressed && gzdirect(file_.get()) != 0) {
    std::uint8_t first = 0;
    if (some(&first, 1) == 1) fail("is not a gzip file");
  }
}

bool DataFile::exists(const std::vector<std::string>& paths) { return !pathOf(paths).empty(); }

void DataFile::fail(const std::string& what) const {
  throw Error(ErrorCode::data, path_ + ": " + what);
}

std::size_t DataFile::some(std::uint8_t* into, std::size_t bytes) {
  const int got = gzread(file_.get(), into, static_cast<unsigned>(bytes));
  if (got == static_cast<int>(bytes)) return bytes;
  int code = Z_OK;
  std::string text = gzerror(file_.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) {
    if (text.starts_with("<fd:")) text.erase(0, text.find(": ") + 2); // zlib's name of the file
    fail("damaged: " + text);
  }
  return static_cast<std::size_t>(std::max(got, 0));
}

void DataFile::read(std::vector<std::uint8_t>& into, std::size_t bytes, const std::string& items) {
  const std::size_t begin = into.size();
  readRest(into, bytes);
  if (into.size() < begin + bytes)
    fail("ends after " + std::to_string(into.size() - begin) + " of the " + std::to_string(bytes) +
         " bytes of the " + items);
}

void DataFile::readRest(std::vector<std::uint8_t>& into, std::size_t most) {
  for (std::size_t left = most; left > 0;) {
    const std::size_t have = into.size(), want = std::min(kReadBytes, left);
    into.resize(have + want);
    const std::size_t got = some(into.data() + have, want);
    into.resize(have + got);
    left -= got;
    if (got < want) return;
  }
}

void DataFile::expectEnd(const std::string& items) {
  std::uint8_t extra = 0; // reading it makes zlib verify the check sum at the end
  if (some(&extra, 1) != 0) fail("continues after the " + items);
}

std::uint32_t DataFile::bigEndianWord() {
  std::array<std::uint8_t, 4> bytes{};
  if (some(bytes.data(), bytes.size()) != bytes.size()) fail("ends within its header");
  std::uint32_t value = 0;
  for (std::uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

} // namespace rondo::training
