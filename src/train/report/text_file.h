// Files of text that reports are written to.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace rondo::training {

/// Begins anew, replacing what is there, or goes on behind it. All errors are Error(system) that
/// names the file and says why.
class TextFile {
 public:
  enum class Begin { anew, behind };

  TextFile(const std::string& path, Begin begin);

  void write(std::string_view text);
  /// What was written is in the file from now on; also tells errors that came late.
  void flush();
  /// The same for the last time: nothing is told by an object that just goes away.
  void close();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  [[noreturn]] void fail() const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

} // namespace rondo::training
