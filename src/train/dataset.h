// Labelled grey images in the IDX files of MNIST and Fashion-MNIST.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rondo::training {

inline constexpr std::size_t kImageSide = 28;
inline constexpr std::size_t kPixels = kImageSide * kImageSide;
inline constexpr std::size_t kClasses = 10;

struct Dataset {
  std::vector<std::uint8_t> images; ///< [size() x kPixels]
  std::vector<std::uint8_t> labels; ///< [size()], each below kClasses

  std::size_t size() const { return labels.size(); }
};

/// Reads FOLDER/PART-images-idx3-ubyte.gz and FOLDER/PART-labels-idx1-ubyte.gz to their ends.
/// `part` is "train" or "t10k". Throws Error(data) that names the file and what is wrong with it.
Dataset loadDataset(const std::string& folder, const std::string& part);

} // namespace rondo::training
