// Changes a checkpoint so that its check sums still hold: what only a reader's own care finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "support/data_files.h"

namespace rondo::test {

/// Writes the number where the file's index has this word (its first occurrence), so many bytes
/// behind its end; then seals the index anew.
void forge(Bytes& checkpoint, const std::string& word, std::size_t behind, std::uint64_t number);
/// The same for one byte.
void forgeByte(Bytes& checkpoint, const std::string& word, std::size_t behind, std::uint8_t byte);

} // namespace rondo::test
