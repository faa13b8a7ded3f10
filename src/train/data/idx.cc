// Reads MNIST and similar data sets: IDX files, which are a magic number, big-endian sizes, and
// bytes.
#include <array>
#include <cstdio>

#include "train/data/data_file.h"
#include "train/data/dataset.h"

namespace rondo::training::sources {
namespace {

/// Limits what a wrong header can make this program allocate. Real data sets have far fewer items.
constexpr std::uint32_t kMostItems = 1U << 24;
constexpr std::size_t kSide = 28, kClasses = 10;

std::string hex(std::uint32_t value) {
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

/// Returns the bytes of a file's items, which must have this shape. The file must end after them.
std::vector<std::uint8_t> read(DataFile& file, const std::vector<std::uint32_t>& shape) {
  const std::uint32_t magic = file.bigEndianWord();
  const std::uint32_t expected = 0x800U + static_cast<std::uint32_t>(shape.size()) + 1;
  if (magic != expected) file.fail("starts with " + hex(magic) + ", not with " + hex(expected));
  const std::uint32_t count = file.bigEndianWord();
  if (count == 0) file.fail("holds no items");
  if (count > kMostItems) file.fail("announces " + std::to_string(count) + " items");
  std::size_t bytes = count;
  for (std::uint32_t side : shape) {
    const std::uint32_t found = file.bigEndianWord();
    if (found != side)
      file.fail("its images have a side of " + std::to_string(found) + ", not " +
                std::to_string(side));
    bytes *= side;
  }
  const std::string items = std::to_string(count) + " items that it announces";
  std::vector<std::uint8_t> content;
  file.read(content, bytes, items);
  file.expectEnd(items);
  return content;
}

/// Archives of the data set write either "-" or "." before "idx".
std::vector<std::string> named(const std::string& begin, const std::string& end) {
  return {begin + "-" + end, begin + "." + end};
}

std::vector<std::string> imagesOf(const std::string& folder, const std::string& part) {
  return named(folder + "/" + part + "-images", "idx3-ubyte");
}

std::vector<std::string> labelsOf(const std::string& folder, const std::string& part) {
  return named(folder + "/" + part + "-labels", "idx1-ubyte");
}

Dataset loadPart(const std::string& folder, const std::string& part) {
  DataFile images(imagesOf(folder, part)), labels(labelsOf(folder, part));
  Dataset set{.shape = {1, kSide, kSide}, .classes = kClasses, .images = {}, .labels = {}};
  set.images = read(images, {kSide, kSide});
  set.labels = read(labels, {});
  const std::size_t count = set.images.size() / set.shape.size();
  if (set.size() != count)
    labels.fail("has " + std::to_string(set.size()) + " labels for " + std::to_string(count) +
                " images");
  checkLabels(labels.path(), set);
  return set;
}

bool recognises(const std::string& folder) {
  for (const char* part : {"train", "t10k"})
    if (DataFile::exists(imagesOf(folder, part)) || DataFile::exists(labelsOf(folder, part)))
      return true;
  return false;
}

Data load(const std::string& folder) {
  return {loadPart(folder, "train"), loadPart(folder, "t10k"), {}};
}

} // namespace

extern const DataSource idx;
const DataSource idx{
    .name = "idx",
    .summary = "MNIST and Fashion-MNIST: grey images of 28 x 28",
    .files =
        "a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
        "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (or .idx for -idx), each with or without "
        ".gz",
    .recognises = recognises,
    .load = load,
};

} // namespace rondo::training::sources
