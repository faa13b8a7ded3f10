// Small data sets in the real file format, and temporary folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace rondo::test {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

using Bytes = std::vector<std::uint8_t>;

/// The four files of a data set.
inline const std::vector<std::string> kDataFiles = {
    "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz"};

/// An IDX header: magic, then the sizes.
Bytes idxHeader(std::uint32_t magic, const std::vector<std::uint32_t>& sizes);
void writeGzip(const std::string& path, const Bytes& content);
/// readRaw(): the bytes of a file. readGzip(): its decompressed content.
Bytes readRaw(const std::string& path);
void writeRaw(const std::string& path, const Bytes& content);
Bytes readGzip(const std::string& path);

/// Noisy copies of one random picture for each class: 28 x 28, 10 classes, learned within a few
/// steps.
void writeDataset(const TemporaryFolder& folder, std::uint32_t train, std::uint32_t test,
                  std::uint32_t seed = 1);

} // namespace rondo::test
