// Checks every write to a report.
#include "train/report/text_file.h"

#include <cerrno>
#include <system_error>

#include "rondo/error.h"

namespace rondo::training {

TextFile::TextFile(const std::string& path, Begin begin)
    : path_(path), file_(std::fopen(path.c_str(), begin == Begin::anew ? "we" : "ae")) {
  if (file_ == nullptr) fail();
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
