// Reads IDX files: gzip around a magic number, big-endian sizes, and bytes.
#include "train/dataset.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "rondo/train.h"

namespace rondo::training {

namespace {

/// Far above any such data set; what a header may make this program believe.
constexpr std::uint32_t kMostItems = 1U << 24;
constexpr std::size_t kReadBytes = 1U << 20;

class IdxFile {
 public:
  explicit IdxFile(std::string path) : path_(std::move(path)) {
    errno = 0;
    file_.reset(gzopen(path_.c_str(), "rb"));
    if (file_ == nullptr) {
      fail(errno == 0 ? "out of memory" : std::generic_category().message(errno));
    }
    gzbuffer(file_.get(), 128 << 10);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::data, path_ + ": " + what);
  }

  /// The items' bytes of a file whose items have this shape; the file ends behind them.
  std::vector<std::uint8_t> read(const std::vector<std::uint32_t>& shape) {
    std::size_t item_bytes = 1;
    const std::uint32_t magic = word();
    // zlib hands on what is not compressed; then the bytes are whatever they are.
    if (gzdirect(file_.get()) != 0) fail("is not a gzip file");
    const std::uint32_t expected = 0x800U + static_cast<std::uint32_t>(shape.size()) + 1;
    if (magic != expected) fail("starts with " + hex(magic) + ", not with " + hex(expected));
    const std::uint32_t count = word();
    if (count == 0) fail("holds no items");
    if (count > kMostItems) fail("announces " + std::to_string(count) + " items");
    for (std::uint32_t side : shape) {
      const std::uint32_t found = word();
      if (found != side)
        fail("its images have a side of " + std::to_string(found) + ", not " +
             std::to_string(side));
      item_bytes *= side;
    }
    const std::size_t bytes = count * item_bytes;
    // Memory follows what is there, not what the header promises.
    std::vector<std::uint8_t> items;
    while (items.size() < bytes) {
      const std::size_t have = items.size();
      const std::size_t want = std::min(kReadBytes, bytes - have);
      items.resize(have + want);
      const std::size_t got = some(items.data() + have, want);
      if (got < want)
        fail("ends after " + std::to_string(have + got) + " of the " + std::to_string(bytes) +
             " bytes of the " + std::to_string(count) + " items that it announces");
    }
    std::uint8_t extra = 0; // asking for it makes zlib check the sum at the end
    if (some(&extra, 1) != 0)
      fail("goes on behind the " + std::to_string(count) + " items that it announces");
    return items;
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };

  static std::string hex(std::uint32_t value) {
    std::array<char, 16> text;
    std::snprintf(text.data(), text.size(), "0x%08x", value);
    return text.data();
  }

  /// Less than `bytes` only at the true end of the data.
  std::size_t some(std::uint8_t* into, std::size_t bytes) {
    const int got = gzread(file_.get(), into, static_cast<unsigned>(bytes));
    if (got == static_cast<int>(bytes)) return bytes;
    int code = Z_OK;
    std::string text = gzerror(file_.get(), &code);
    if (code != Z_OK && code != Z_STREAM_END) {
      if (text.starts_with(path_ + ": ")) text.erase(0, path_.size() + 2);
      fail("damaged: " + text);
    }
    return static_cast<std::size_t>(std::max(got, 0));
  }

  std::uint32_t word() {
    std::array<std::uint8_t, 4> bytes{};
    if (some(bytes.data(), bytes.size()) != bytes.size()) fail("ends within its header");
    std::uint32_t value = 0;
    for (std::uint8_t byte : bytes) value = value << 8 | byte;
    return value;
  }

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

} // namespace

Dataset loadDataset(const std::string& folder, const std::string& part) {
  IdxFile images(folder + "/" + part + "-images-idx3-ubyte.gz");
  IdxFile labels(folder + "/" + part + "-labels-idx1-ubyte.gz");
  Dataset data;
  data.images = images.read({kImageSide, kImageSide});
  data.labels = labels.read({});
  if (data.images.size() != data.labels.size() * kPixels)
    labels.fail("has " + std::to_string(data.labels.size()) + " labels for " +
                std::to_string(data.images.size() / kPixels) + " images");
  const auto bad = std::find_if(data.labels.begin(), data.labels.end(),
                                [](std::uint8_t label) { return label >= kClasses; });
  if (bad != data.labels.end())
    labels.fail("label " + std::to_string(bad - data.labels.begin()) + " is " +
                std::to_string(*bad) + ", beyond the " + std::to_string(kClasses) + " classes");
  return data;
}

} // namespace rondo::training

namespace rondo {

std::string defaultDataFolder() {
  const char* folder = std::getenv("RONDO_DATA");
  return folder != nullptr && *folder != '\0' ? folder : "/usr/share/datasets/fashion-mnist";
}

} // namespace rondo
