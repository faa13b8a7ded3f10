// Tests CIFAR-10 and synthetic data, and how the right source is found.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "rondo/error.h"
#include "support/data_files.h"
#include "support/test.h"
#include "train/data/dataset.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kRecord = 1 + 3 * 32 * 32;

std::string batchName(int number) {
  return number == 6 ? "test_batch.bin" : "data_batch_" + std::to_string(number) + ".bin";
}

/// Writes the six files of CIFAR-10's binary version with this many images each, and returns their
/// contents.
std::vector<Bytes> writeCifar(const TemporaryFolder& folder, std::size_t images) {
  std::minstd_rand random(3);
  std::vector<Bytes> files;
  for (int number = 1; number <= 6; ++number) {
    Bytes& content = files.emplace_back(images * kRecord);
    for (std::size_t i = 0; i < content.size(); ++i)
      content[i] = static_cast<std::uint8_t>(i % kRecord == 0 ? random() % 10 : random() % 256);
    writeRaw(folder.file(batchName(number)), content);
  }
  return files;
}

/// Returns the code and text of the Error that loading throws.
std::pair<ErrorCode, std::string> complaint(const std::string& where) {
  try {
    loadData(where);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::system, "nothing was thrown"};
}

void requireComplaint(const std::string& where, ErrorCode code, const std::string& begins,
                      const std::string& says) {
  const auto [found, text] = complaint(where);
  INFO(text);
  REQUIRE(found == code);
  REQUIRE(text.starts_with(begins));
  REQUIRE(text.find(says) != std::string::npos);
}

} // namespace

TEST_CASE("CIFAR-10 is read as it was written, compressed or not") {
  TemporaryFolder folder;
  const std::vector<Bytes> files = writeCifar(folder, 7);
  for (const bool compressed : {false, true}) {
    if (compressed)
      for (int number = 2; number <= 6; number += 2) {
        writeGzip(folder.file(batchName(number) + ".gz"),
                  files[static_cast<std::size_t>(number - 1)]);
        std::filesystem::remove(folder.file(batchName(number)));
      }
    const Data data = loadData(folder.path());
    REQUIRE(data.train.shape == SampleShape{3, 32, 32});
    REQUIRE(data.train.classes == 10);
    REQUIRE(data.train.size() == 35);
    REQUIRE(data.test.size() == 7);
    for (std::size_t i = 0; i < 42; ++i) {
      const Dataset& set = i < 35 ? data.train : data.test;
      const std::uint8_t* record = files[i / 7].data() + i % 7 * kRecord;
      REQUIRE(set.labels[i % 35] == record[0]);
      REQUIRE(std::equal(record + 1, record + kRecord, set.image(i % 35)));
    }
  }
}

TEST_CASE("CIFAR-10 is found in the folder of its archive") {
  TemporaryFolder folder;
  writeCifar(folder, 7);
  const Data expected = loadData(folder.path());
  const std::string inner = folder.file("cifar-10-batches-bin");
  std::filesystem::create_directory(inner);
  for (int number = 1; number <= 6; ++number)
    std::filesystem::rename(folder.file(batchName(number)), inner + "/" + batchName(number));
  for (const std::string& where : {folder.path(), inner}) {
    const Data found = loadData(where);
    REQUIRE(found.train.hash == expected.train.hash);
    REQUIRE(found.test.hash == expected.test.hash);
  }
  std::filesystem::remove(inner + "/test_batch.bin");
  requireComplaint(folder.path(), ErrorCode::data,
                   inner + "/test_batch.bin: ", "test_batch.bin.gz");
}

TEST_CASE("every fault of a CIFAR-10 file is Error(data) that names file and fault") {
  for (int number = 1; number <= 6; ++number) {
    TemporaryFolder folder;
    const Bytes whole = writeCifar(folder, 7)[static_cast<std::size_t>(number - 1)];
    const std::string path = folder.file(batchName(number));
    const auto damaged = [&](const Bytes& content, const std::string& says) {
      writeRaw(path, content);
      requireComplaint(folder.path(), ErrorCode::data, path + ": ", says);
    };
    Bytes torn = whole;
    torn.pop_back();
    damaged(torn, "ends within image 6: it has 21510 bytes, not a multiple of 3073");
    damaged({}, "is empty");
    Bytes label = whole;
    label[4 * kRecord] = 10;
    damaged(label, "label 4 is 10, beyond the 10 classes");
    if (number != 6) {
      const Bytes shorter(whole.begin(), whole.end() - kRecord);
      writeRaw(path, shorter);
      const std::string named = number == 1 ? folder.file(batchName(2)) : path;
      requireComplaint(folder.path(), ErrorCode::data, named + ": ",
                       number == 1 ? "has 7 images, but data_batch_1 has 6"
                                   : "has 6 images, but data_batch_1 has 7");
    }
    std::filesystem::remove(path);
    requireComplaint(folder.path(), ErrorCode::data, path + ": ",
                     "No such file or directory; looked for " + batchName(number) + ".gz too");
  }
}

TEST_CASE("a limit keeps the first training samples, and the statistics are of these") {
  const std::string spec = "synthetic:train=50,test=20";
  const Data all = loadData(spec), some = loadData(spec, 8), plenty = loadData(spec, 51);
  REQUIRE(some.train.size() == 8);
  REQUIRE(some.train.images.size() == 8 * some.train.shape.size());
  REQUIRE(std::equal(some.train.images.begin(), some.train.images.end(), all.train.images.begin()));
  REQUIRE(some.test.images == all.test.images);
  REQUIRE(some.statistics == channelStatistics(some.train));
  REQUIRE(all.statistics == channelStatistics(all.train));
  REQUIRE(plenty.train.size() == 50);
}

TEST_CASE("if no source is found, the error lists all sources and says who has Fashion-MNIST") {
  TemporaryFolder folder;
  requireComplaint(folder.path(), ErrorCode::data, folder.path() + ": has no data of a known kind",
                   "idx (a folder with train-images-idx3-ubyte");
  requireComplaint(folder.file("nowhere"), ErrorCode::data,
                   folder.file("nowhere") + ": No such file or directory", "synthetic (");
  requireComplaint(folder.file("nowhere"), ErrorCode::data, folder.file("nowhere"),
                   "(Fashion-MNIST is in Debian's package dataset-fashion-mnist)");
  for (const DataSource* source : dataSources()) REQUIRE(!source->recognises(folder.path()));
}

TEST_CASE("synthetic data have the sizes asked for, and are the same each time") {
  const std::string spec = "synthetic:shape=3x20x17,classes=4,train=301,test=55,seed=9";
  const Data data = loadData(spec), again = loadData(spec);
  REQUIRE(data.train.shape == SampleShape{3, 20, 17});
  REQUIRE(data.train.classes == 4);
  REQUIRE(data.train.size() == 301);
  REQUIRE(data.test.size() == 55);
  REQUIRE(data.train.images.size() == 301 * 3 * 20 * 17);
  REQUIRE(data.train.images == again.train.images);
  REQUIRE(data.test.labels == again.test.labels);
  const std::set<std::uint8_t> labels(data.train.labels.begin(), data.train.labels.end());
  REQUIRE(labels == std::set<std::uint8_t>{0, 1, 2, 3});

  const Data fewer = loadData("synthetic:shape=3x20x17,classes=4,train=10,test=55,seed=9");
  REQUIRE(
      std::equal(fewer.train.images.begin(), fewer.train.images.end(), data.train.images.begin()));
  REQUIRE(fewer.test.images == data.test.images);
  const Data other = loadData("synthetic:shape=3x20x17,classes=4,train=301,test=55,seed=10");
  REQUIRE(other.train.images != data.train.images);

  const Data plain = loadData("synthetic");
  REQUIRE(plain.train.shape == SampleShape{1, 28, 28});
  REQUIRE(plain.train.size() == 10'000);
  REQUIRE(plain.test.size() == 2'000);
}

TEST_CASE("synthetic data can be learnt: the nearest class average finds the test samples' class") {
  const Data data = loadData("synthetic:train=2000,test=500");
  const std::size_t pixels = data.train.shape.size();
  std::vector<double> averages(10 * pixels), counts(10);
  for (std::size_t i = 0; i < data.train.size(); ++i) {
    const std::size_t label = data.train.labels[i];
    ++counts[label];
    for (std::size_t p = 0; p < pixels; ++p) averages[label * pixels + p] += data.train.image(i)[p];
  }
  std::size_t correct = 0;
  for (std::size_t i = 0; i < data.test.size(); ++i) {
    std::array<double, 10> distances{};
    for (std::size_t label = 0; label < 10; ++label)
      for (std::size_t p = 0; p < pixels; ++p)
        distances[label] +=
            std::pow(averages[label * pixels + p] / counts[label] - data.test.image(i)[p], 2);
    const auto nearest = std::min_element(distances.begin(), distances.end());
    if (nearest - distances.begin() == data.test.labels[i]) ++correct;
  }
  REQUIRE(correct > 450);
}

TEST_CASE("a wrong setting of synthetic data is refused by its name") {
  const auto refused = [](const std::string& settings, const std::string& says) {
    requireComplaint("synthetic:" + settings, ErrorCode::invalid_argument,
                     "train: data \"synthetic:" + settings + "\": ", says);
  };
  refused("size=3", "unknown setting \"size\"; valid: shape, classes, train, test, seed");
  refused("", "unknown setting \"\"");
  refused("train=0", "train must be a number from 1 to");
  refused("train=5x", "train must be a number");
  refused("train", "train must be a number");
  refused("classes=257", "classes must be a number from 2 to 256");
  refused("seed=-1", "seed must be a number");
  refused("shape=3x32", "shape must be CHANNELSxHEIGHTxWIDTH");
  refused("shape=3x32x0", "shape must be CHANNELSxHEIGHTxWIDTH");
  refused("shape=3x32x32x1", "shape must be CHANNELSxHEIGHTxWIDTH");
  refused("shape=4096x4096x4096", "makes more than");
}

TEST_CASE("channel statistics are mean and deviation, to four digits") {
  Dataset set{.shape = {3, 2, 5}, .classes = 2, .images = {}, .labels = {}};
  std::minstd_rand random(2);
  for (int i = 0; i < 13; ++i) {
    set.labels.push_back(0);
    for (std::size_t p = 0; p < set.shape.size(); ++p)
      set.images.push_back(static_cast<std::uint8_t>(p < 10 ? 7 : random() % (p < 20 ? 256 : 30)));
  }
  const auto statistics = channelStatistics(set);
  REQUIRE(statistics.size() == 3);
  // Equal pixels have a deviation of 0, by which nothing can be divided.
  REQUIRE(statistics[0] == ChannelStatistics{0.0275F, 1});
  for (std::size_t channel : {1, 2}) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < 13; ++i)
      for (std::size_t p = 0; p < 10; ++p) {
        const double value = set.image(i)[channel * 10 + p] / 255.0;
        sum += value;
        squares += value * value;
      }
    const double mean = sum / 130, deviation = std::sqrt(squares / 130 - mean * mean);
    REQUIRE(std::abs(statistics[channel].mean - mean) <= 0.5001e-4);
    REQUIRE(std::abs(statistics[channel].deviation - deviation) <= 0.5001e-4);
  }
}

} // namespace rondo::test
