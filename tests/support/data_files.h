// Small data sets in the real file format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace rondo::test {

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
