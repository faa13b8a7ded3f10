#include "support/forged.h"

#include <algorithm>
#include <cstring>

#include "rondo/detail/hash.h"
#include "support/test.h"
#include "train/loop/checkpoint_file.h"

namespace rondo::test {

namespace {

void put(Bytes& file, const std::string& word, std::size_t behind, const void* data,
         std::size_t size) {
  using training::CheckpointHeader;
  const auto found = std::search(file.begin(), file.end(), word.begin(), word.end());
  REQUIRE(found != file.end());
  const auto at = static_cast<std::size_t>(found - file.begin()) + word.size() + behind;
  REQUIRE(at + size <= file.size());
  std::memcpy(file.data() + at, data, size);
  CheckpointHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  header.index_hash = detail::hashBytes(file.data() + sizeof header, header.index_bytes);
  std::memcpy(file.data(), &header, sizeof header);
}

} // namespace

void forge(Bytes& checkpoint, const std::string& word, std::size_t behind, std::uint64_t number) {
  put(checkpoint, word, behind, &number, sizeof number);
}

void forgeByte(Bytes& checkpoint, const std::string& word, std::size_t behind, std::uint8_t byte) {
  put(checkpoint, word, behind, &byte, sizeof byte);
}

} // namespace rondo::test
