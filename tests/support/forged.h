// Changes a checkpoint so that its check sums are still right, to test the reader's other checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "support/data_files.h"

namespace rondo::test {

/// Writes the number into the file's index, `behind` bytes after the end of the word's first
/// occurrence, and computes the index's check sum again.
void forge(Bytes& checkpoint, const std::string& word, std::size_t behind, std::uint64_t number);
/// The same for one byte.
void forgeByte(Bytes& checkpoint, const std::string& word, std::size_t behind, std::uint8_t byte);

} // namespace rondo::test
