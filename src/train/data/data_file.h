// A file of bytes, compressed by gzip or not, whose every fault is an error that names it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct gzFile_s;

namespace rondo::training {

/// Read from its beginning to its end, once. All errors are Error(data), "PATH: what is wrong".
class DataFile {
 public:
  /// The first that is there of these paths, each as PATH.gz, which must be compressed, or PATH. A
  /// folder of such a name counts only if there is no file. Throws which are missing if none is.
  explicit DataFile(const std::vector<std::string>& paths);
  static bool exists(const std::vector<std::string>& paths);

  const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const;

  /// As many bytes as there are up to this number; less only at the true end of the file.
  std::size_t some(std::uint8_t* into, std::size_t bytes);
  /// Appends so many bytes; `items` is what they are to the reader of an error: "90 items". Memory
  /// follows what is there, not what a header promises.
  void read(std::vector<std::uint8_t>& into, std::size_t bytes, const std::string& items);
  /// Appends all that is left, at most so many bytes.
  void readRest(std::vector<std::uint8_t>& into, std::size_t most);
  /// Checks that nothing follows, and a compressed file's check sum.
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
