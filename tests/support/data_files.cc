// Makes data sets for the trainer's tests.
#include "support/data_files.h"

#include <zlib.h>

#include <fstream>
#include <random>
#include <stdexcept>

namespace rondo::test {

Bytes idxHeader(std::uint32_t magic, const std::vector<std::uint32_t>& sizes) {
  Bytes bytes;
  const auto word = [&bytes](std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  };
  word(magic);
  for (std::uint32_t size : sizes) word(size);
  return bytes;
}

void writeGzip(const std::string& path, const Bytes& content) {
  gzFile file = gzopen(path.c_str(), "wb1");
  if (file == nullptr) throw std::runtime_error("cannot write " + path);
  const int written =
      content.empty() ? 0 : gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  if (gzclose(file) != Z_OK || written != static_cast<int>(content.size()))
    throw std::runtime_error("cannot write " + path);
}

Bytes readRaw(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  Bytes content(static_cast<std::size_t>(file.tellg()));
  file.seekg(0).read(reinterpret_cast<char*>(content.data()),
                     static_cast<std::streamsize>(content.size()));
  return content;
}

void writeRaw(const std::string& path, const Bytes& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(content.data()),
             static_cast<std::streamsize>(content.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

Bytes readGzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot read " + path);
  Bytes content;
  std::uint8_t byte = 0;
  while (gzread(file, &byte, 1) == 1) content.push_back(byte);
  gzclose(file);
  return content;
}

void writeDataset(const TemporaryFolder& folder, std::uint32_t train, std::uint32_t test,
                  std::uint32_t seed) {
  constexpr std::uint32_t kSide = 28, kPixels = kSide * kSide, kClasses = 10;
  std::minstd_rand random(seed);
  Bytes pictures(kClasses * kPixels);
  for (std::uint8_t& pixel : pictures) pixel = static_cast<std::uint8_t>(random() % 200);
  for (const auto& [part, count] : {std::pair{0, train}, std::pair{2, test}}) {
    Bytes images = idxHeader(0x803, {count, kSide, kSide}), labels = idxHeader(0x801, {count});
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto label = static_cast<std::uint8_t>(random() % kClasses);
      labels.push_back(label);
      for (std::uint32_t p = 0; p < kPixels; ++p)
        images.push_back(static_cast<std::uint8_t>(pictures[label * kPixels + p] + random() % 56));
    }
    writeGzip(folder.file(kDataFiles[static_cast<std::size_t>(part)]), images);
    writeGzip(folder.file(kDataFiles[static_cast<std::size_t>(part) + 1]), labels);
  }
}

} // namespace rondo::test
