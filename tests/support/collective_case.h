// One call of a collective, with inputs made from a seed and the result that every rank must get.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rondo/communicator.h"

namespace rondo::test {

/// Inputs are small whole numbers, so that every order of summing gives the same bits in every type
/// for up to 8 ranks: 0 to 3 (fp8: 0 and 1), even numbers for the pre-multiplied sum, at most two
/// factors of 2 in a product.
struct CollectiveCase {
  Collective collective = Collective::allreduce;
  std::size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  bool in_place = false;
  bool async = false;

  /// Makes the call on this rank, and compares the output and the bytes around it with the expected
  /// ones. Returns what is wrong, in a sentence; empty if nothing is.
  std::string run(Communicator& comm) const;

  /// Starts the call with buffers that have the layout of CollectiveBuffers, in any memory.
  Work start(Communicator& comm, const void* input, void* output) const;

  std::string text() const;
};

/// The buffers of one rank's call, with guard bytes around them.
class CollectiveBuffers {
 public:
  CollectiveBuffers(const CollectiveCase& call, int rank, int ranks);
  ~CollectiveBuffers();

  /// Writes the inputs, and clears the outputs of an earlier call.
  void fill();
  /// The arguments of the call: null for a buffer that it does not use.
  const void* input() const;
  void* output() const;
  /// All memory of the buffers above with their guards, to be copied elsewhere and back.
  std::vector<std::span<std::byte>> memory() const;
  /// What is wrong with outputs, guards and inputs after the call; empty if nothing is.
  std::string wrong() const;

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

/// Input block `block` of rank `rank`.
std::vector<std::byte> inputBlock(const CollectiveCase& call, int rank, int block, int ranks);

} // namespace rondo::test
