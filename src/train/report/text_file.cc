// Writes text files, and checks every operation for errors.
#include "train/report/text_file.h"

#include <cerrno>
#include <system_error>

#include "base/above_streams.h"
#include "rondo/error.h"

namespace rondo::training {

TextFile::TextFile(const std::string& path, Begin begin) : path_(path) {
  const bool anew = begin == Begin::anew;
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | (anew ? O_TRUNC : O_APPEND);
  const int fd = base::aboveStreams(::open(path.c_str(), how, 0666));
  if (fd >= 0) file_.reset(::fdopen(fd, anew ? "w" : "a"));
  if (file_ != nullptr) return;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  errno = error;
  fail();
}

void TextFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) fail();
}

void TextFile::flush() {
  if (std::fflush(file_.get()) != 0) fail();
}

void TextFile::close() {
  if (std::fclose(file_.release()) != 0) fail();
}

void TextFile::fail() const {
  throw Error(ErrorCode::system,
              path_ + ": could not be written: " + std::generic_category().message(errno));
}

} // namespace rondo::training
