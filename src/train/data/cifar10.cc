// Reads CIFAR-10's binary version (Krizhevsky, 2009): for each image one byte with the label, then
// the red, green and blue planes of 32 x 32 bytes.
#include "train/data/data_file.h"
#include "train/data/dataset.h"

namespace rondo::training::sources {
namespace {

constexpr SampleShape kShape{3, 32, 32};
constexpr std::size_t kClasses = 10;
constexpr int kTrainFiles = 5;
/// A hundred times the images of a real file.
constexpr std::size_t kMostImages = 1'000'000;

/// The folder in the archive of the data set.
constexpr const char* kInnerFolder = "/cifar-10-batches-bin";

std::string trainFile(const std::string& folder, int number) {
  return folder + "/data_batch_" + std::to_string(number) + ".bin";
}

std::string testFile(const std::string& folder) { return folder + "/test_batch.bin"; }

/// Appends a file's images and returns their number. `expected` is the number that the file must
/// have, or 0 for any. The file has no header, so a file that was cut between two images is only
/// found by comparison with the others.
std::size_t append(Dataset& set, const std::string& path, std::size_t expected) {
  const std::size_t pixels = kShape.size(), record = 1 + pixels;
  DataFile file({path});
  std::vector<std::uint8_t> content;
  file.readRest(content, kMostImages * record);
  file.expectEnd(std::to_string(kMostImages) + " images that a file may have");
  const std::size_t count = content.size() / record;
  if (content.empty()) file.fail("is empty");
  if (content.size() % record != 0)
    file.fail("ends within image " + std::to_string(count) + ": it has " +
              std::to_string(content.size()) + " bytes, not a multiple of " +
              std::to_string(record));
  if (expected != 0 && count != expected)
    file.fail("has " + std::to_string(count) + " images, but data_batch_1 has " +
              std::to_string(expected));
  Dataset part{.shape = kShape, .classes = kClasses, .images = {}, .labels = {}};
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = content.begin() + static_cast<std::ptrdiff_t>(i * record);
    part.labels.push_back(*begin);
    set.images.insert(set.images.end(), begin + 1, begin + static_cast<std::ptrdiff_t>(record));
  }
  checkLabels(file.path(), part);
  set.labels.insert(set.labels.end(), part.labels.begin(), part.labels.end());
  return count;
}

bool isHere(const std::string& folder) {
  for (int number = 1; number <= kTrainFiles; ++number)
    if (DataFile::exists({trainFile(folder, number)})) return true;
  return DataFile::exists({testFile(folder)});
}

bool recognises(const std::string& folder) {
  return isHere(folder) || isHere(folder + kInnerFolder);
}

Data load(const std::string& where) {
  const std::string folder = isHere(where) ? where : where + kInnerFolder;
  const Dataset empty{.shape = kShape, .classes = kClasses, .images = {}, .labels = {}};
  Data data{empty, empty, {}};
  std::size_t count = 0;
  for (int number = 1; number <= kTrainFiles; ++number)
    count = append(data.train, trainFile(folder, number), count);
  append(data.test, testFile(folder), 0);
  return data;
}

} // namespace

extern const DataSource cifar10;
const DataSource cifar10{
    .name = "cifar10",
    .summary = "CIFAR-10, the binary version: colour images of 32 x 32",
    .files =
        "a folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin, each with or "
        "without .gz, or a folder with cifar-10-batches-bin, which has these",
    .recognises = recognises,
    .load = load,
};

} // namespace rondo::training::sources
