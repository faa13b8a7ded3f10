// Text files that reports are written to.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace rondo::training {

/// A text file that replaces an existing one (anew) or appends to it (behind). All errors are
/// Error(system), which names the file and the reason.
class TextFile {
 public:
  enum class Begin { anew, behind };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  TextFile(const std::string& path, Begin begin);

  void write(std::string_view text);
  /// Writes buffered text to the file. It may report errors of earlier writes.
  void flush();
  /// Flushes and closes the file. The destructor closes it too, but reports no errors.
  void close();

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

} // namespace rondo::training
