// Tests data files: complete ones are read, and every kind of damage is an error that names the
// file and the fault.
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "rondo/error.h"
#include "rondo/train.h"
#include "support/data_files.h"
#include "support/test.h"
#include "train/data/dataset.h"

namespace rondo::test {
namespace {

bool contains(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

/// Returns the text of the Error(data) that loading the folder throws. Any other outcome gives
/// another text.
std::string complaint(const TemporaryFolder& folder) {
  try {
    training::loadData(folder.path());
  } catch (const Error& error) {
    return error.code() == ErrorCode::data ? error.what()
                                           : "another code: " + std::string(error.what());
  }
  return "nothing was thrown";
}

/// For example "train-images.idx3-ubyte.gz" for "train-images-idx3-ubyte.gz".
std::string withDot(std::string name) {
  name[name.find("-idx")] = '.';
  return name;
}

struct Damage {
  std::string name;
  std::function<void(const std::string& path)> inflict;
  std::string says;
};

void rewrite(const std::string& path, const std::function<void(Bytes&)>& change) {
  Bytes content = readGzip(path);
  change(content);
  writeGzip(path, content);
}

void rewriteRaw(const std::string& path, const std::function<void(Bytes&)>& change) {
  Bytes content = readRaw(path);
  change(content);
  writeRaw(path, content);
}

const std::vector<Damage> kDamages = {
    {"a folder",
     [](const std::string& path) {
       std::filesystem::remove(path);
       std::filesystem::create_directory(path);
     },
     "Is a directory"},
    {"empty", [](const std::string& path) { writeRaw(path, {}); }, "ends within its header"},
    {"not gzip", [](const std::string& path) { writeRaw(path, readGzip(path)); },
     "is not a gzip file"},
    {"compressed data cut in the middle",
     [](const std::string& path) { rewriteRaw(path, [](Bytes& b) { b.resize(b.size() / 2); }); },
     "damaged: unexpected end of file"},
    {"check sum cut off",
     [](const std::string& path) { rewriteRaw(path, [](Bytes& b) { b.resize(b.size() - 8); }); },
     "damaged: unexpected end of file"},
    {"wrong check sum",
     [](const std::string& path) { rewriteRaw(path, [](Bytes& b) { b[b.size() - 8] ^= 1; }); },
     "damaged: incorrect data check"},
    {"nothing inside", [](const std::string& path) { writeGzip(path, {}); },
     "ends within its header"},
    {"header cut", [](const std::string& path) { rewrite(path, [](Bytes& b) { b.resize(6); }); },
     "ends within its header"},
    {"wrong magic", [](const std::string& path) { rewrite(path, [](Bytes& b) { b[3] = 0x0d; }); },
     "starts with 0x0000080d, not with 0x0000080"},
    {"no items", [](const std::string& path) { rewrite(path, [](Bytes& b) { b[6] = b[7] = 0; }); },
     "holds no items"},
    {"header promises more",
     [](const std::string& path) { rewrite(path, [](Bytes& b) { ++b[7]; }); }, "ends after"},
    {"header promises what no machine holds",
     [](const std::string& path) { rewrite(path, [](Bytes& b) { b[4] = 0xff; }); },
     "announces 4278190"},
    {"header promises less",
     [](const std::string& path) { rewrite(path, [](Bytes& b) { --b[7]; }); }, "continues after"},
    {"one byte missing",
     [](const std::string& path) { rewrite(path, [](Bytes& b) { b.pop_back(); }); }, "ends after"},
    {"one byte too many",
     [](const std::string& path) { rewrite(path, [](Bytes& b) { b.push_back(0); }); },
     "continues after"},
};

} // namespace

TEST_CASE("a data set is read as it was written") {
  TemporaryFolder folder;
  writeDataset(folder, 30, 20);
  const training::Data both = training::loadData(folder.path());
  for (std::size_t file : {0, 2}) {
    const training::Dataset& data = file == 0 ? both.train : both.test;
    Bytes images = readGzip(folder.file(kDataFiles[file]));
    Bytes labels = readGzip(folder.file(kDataFiles[file + 1]));
    images.erase(images.begin(), images.begin() + 16);
    labels.erase(labels.begin(), labels.begin() + 8);
    REQUIRE(data.size() == (file == 0 ? 30 : 20));
    REQUIRE(data.shape == training::SampleShape{1, 28, 28});
    REQUIRE(data.classes == 10);
    REQUIRE(data.images == images);
    REQUIRE(data.labels == labels);
  }
}

TEST_CASE("every damage to every file is Error(data) that names the file and the fault") {
  for (std::size_t file = 0; file < kDataFiles.size(); ++file)
    for (const Damage& damage : kDamages) {
      TemporaryFolder folder;
      writeDataset(folder, 30, 20);
      const std::string path = folder.file(kDataFiles[file]);
      damage.inflict(path);
      INFO(kDataFiles[file] << ": " << damage.name);
      const std::string text = complaint(folder);
      INFO(text);
      REQUIRE(text.starts_with(path + ": "));
      REQUIRE(contains(text, damage.says));
    }
}

TEST_CASE("files that are not compressed are read, also together with compressed ones") {
  TemporaryFolder folder;
  writeDataset(folder, 30, 20);
  const training::Data expected = training::loadData(folder.path());
  for (const std::string& name : kDataFiles) {
    const std::string compressed = folder.file(name);
    writeRaw(compressed.substr(0, compressed.size() - 3), readGzip(compressed));
    std::filesystem::remove(compressed);
    const training::Data found = training::loadData(folder.path());
    REQUIRE(found.train.images == expected.train.images);
    REQUIRE(found.train.labels == expected.train.labels);
    REQUIRE(found.test.images == expected.test.images);
    REQUIRE(found.test.labels == expected.test.labels);
  }
  const std::string images = folder.file("t10k-images-idx3-ubyte");
  rewriteRaw(images, [](Bytes& b) { b.pop_back(); });
  REQUIRE(complaint(folder).starts_with(images + ": ends after 15679 of the 15680 bytes"));
}

TEST_CASE("a missing file is an error that lists all names that it may have") {
  for (const std::string& name : kDataFiles) {
    TemporaryFolder folder;
    writeDataset(folder, 30, 20);
    std::filesystem::remove(folder.file(name));
    const std::string plain = name.substr(0, name.size() - 3), dotted = withDot(plain);
    REQUIRE(complaint(folder) == folder.file(plain) + ": No such file or directory; looked for " +
                                     name + ", " + dotted + ".gz, " + dotted + " too");
  }
}

// Proves: archives that name the files with dots are read, alone or mixed with the other names, and
// a folder that has the name of a file (some archives have both) does not hide the file.
TEST_CASE("files named with a dot before idx are read, compressed or not") {
  TemporaryFolder folder;
  writeDataset(folder, 30, 20);
  const training::Data expected = training::loadData(folder.path());
  for (const bool compressed : {true, false})
    for (const std::string& name : kDataFiles) {
      const std::string dotted = folder.file(withDot(name));
      const std::string plain = dotted.substr(0, dotted.size() - 3);
      if (compressed) {
        std::filesystem::rename(folder.file(name), dotted);
        std::filesystem::create_directory(folder.file(name));
      } else {
        writeRaw(plain, readGzip(dotted));
        std::filesystem::remove(dotted);
      }
      const training::Data found = training::loadData(folder.path());
      REQUIRE(found.train.hash == expected.train.hash);
      REQUIRE(found.test.hash == expected.test.hash);
    }
  const std::string images = folder.file("t10k-images.idx3-ubyte");
  rewriteRaw(images, [](Bytes& b) { b.pop_back(); });
  REQUIRE(complaint(folder).starts_with(images + ": ends after 15679 of the 15680 bytes"));
}

TEST_CASE("errors of labels and counts contain the wrong number") {
  TemporaryFolder folder;
  writeDataset(folder, 30, 20);
  rewrite(folder.file(kDataFiles[0]), [](Bytes& b) { b[11] = 32; });
  REQUIRE(contains(complaint(folder), "side of 32, not 28"));
  rewrite(folder.file(kDataFiles[0]), [](Bytes& b) { b[11] = 28; });

  rewrite(folder.file(kDataFiles[3]), [](Bytes& b) { b[8 + 5] = 10; });
  REQUIRE(contains(complaint(folder), "label 5 is 10, beyond the 10 classes"));
  rewrite(folder.file(kDataFiles[3]), [](Bytes& b) { b[8 + 5] = 9; });

  TemporaryFolder fewer; // complete files of two different data sets
  writeDataset(fewer, 29, 20);
  std::filesystem::copy_file(fewer.file(kDataFiles[1]), folder.file(kDataFiles[1]),
                             std::filesystem::copy_options::overwrite_existing);
  writeDataset(fewer, 30, 20);
  std::filesystem::copy_file(fewer.file(kDataFiles[0]), folder.file(kDataFiles[0]),
                             std::filesystem::copy_options::overwrite_existing);
  REQUIRE(contains(complaint(folder), "has 29 labels for 30 images"));
}

TEST_CASE("RONDO_DATA names the default folder") {
  // No other thread of this program reads the environment now.
  const char* before = std::getenv("RONDO_DATA");
  const std::string kept = before == nullptr ? "" : before;
  setenv("RONDO_DATA", "/somewhere/else", 1);
  REQUIRE(defaultDataFolder() == "/somewhere/else");
  setenv("RONDO_DATA", "", 1);
  REQUIRE(defaultDataFolder() == "/usr/share/datasets/fashion-mnist");
  unsetenv("RONDO_DATA");
  REQUIRE(defaultDataFolder() == "/usr/share/datasets/fashion-mnist");
  if (before != nullptr) setenv("RONDO_DATA", kept.c_str(), 1);
}

} // namespace rondo::test
