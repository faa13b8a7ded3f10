// Reads a file of bytes, compressed by gzip or not. Every error names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct gzFile_s;

namespace rondo::training {

/// Reads a file once, from the beginning to the end. All errors are Error(data): "PATH: what is
/// wrong".
class DataFile {
 public:
  /// Opens the first of these paths that exists, each as PATH.gz, which must be compressed, or as
  /// PATH. A folder of that name is taken only if there is no file. If nothing exists, throws an
  /// error that lists all paths.
  explicit DataFile(const std::vector<std::string>& paths);
  static bool exists(const std::vector<std::string>& paths);

  const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const;

  /// Reads up to this many bytes and returns their number. It is less only at the end of the file.
  std::size_t some(std::uint8_t* into, std::size_t bytes);
  /// Appends exactly this many bytes. `items` describes them in errors, for example "90 items".
  /// Memory grows with the bytes that are read, so a wrong header cannot allocate much.
  void read(std::vector<std::uint8_t>& into, std::size_t bytes, const std::string& items);
  /// Appends the rest of the file, at most this many bytes.
  void readRest(std::vector<std::uint8_t>& into, std::size_t most);
  /// Checks that the file ends here, and the check sum of a compressed file.
  void expectEnd(const std::string& items);
  std::uint32_t bigEndianWord();

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

} // namespace rondo::training
