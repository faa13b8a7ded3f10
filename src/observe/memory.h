// This process's record of calls: a memory file, and its blocks.
#pragma once

#include <cstddef>
#include <memory>

#include "observe/layout.h"

namespace rondo::observe {

/// A mapped block. One thread at a time.
class Block {
 public:
  /// Null if the system gives no memory, or all blocks are taken. Never throws for these.
  static std::unique_ptr<Block> take();
  /// Whether more than half of this process's blocks are in use.
  static bool scarce();
  /// The head stays readable until the block is taken again.
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  BlockHead& head() { return *static_cast<BlockHead*>(at_); }
  Record* records() { return reinterpret_cast<Record*>(static_cast<std::byte*>(at_) + kPage); }
  /// Allocates the memory of so many records; false if there is none.
  bool allocate(std::size_t records);
  /// Whether this process made it. A forked child does not have the memory.
  bool here() const;

 private:
  Block(std::size_t index, void* at, int process) : index_(index), at_(at), process_(process) {}

  const std::size_t index_;
  void* const at_;
  const int process_;
};

/// Descriptor of this process's memory file, or -1. Async-signal-safe.
int memoryFile();

} // namespace rondo::observe
