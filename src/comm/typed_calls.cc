// Derives the count of a typed call from the lengths of its arrays, and checks them.
#include "rondo/typed_calls.h"

#include <algorithm>
#include <string>

#include "rondo/error.h"

namespace rondo::detail {

namespace {

/// Blocks of each buffer on this rank; 0 for one that the call does not use.
struct Used {
  std::size_t input, output;
};

Used usedBy(Collective collective, int rank, int ranks, int root) {
  const detail::CollectiveTraits& of = traits(collective);
  return {of.input.count(ranks, rank, root), of.output.count(ranks, rank, root)};
}

[[noreturn]] void refuse(Collective collective, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, std::string(traits(collective).title) + ": " + why);
}

std::string elements(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " element" : " elements");
}

std::string indivisible(std::size_t count, int ranks) {
  return elements(count) + " cannot be divided into " + std::to_string(ranks) +
         " blocks of the same size, one for each rank";
}

/// How long the buffers must be, compared with each other.
std::string rightLengths(std::size_t input_blocks, std::size_t output_blocks) {
  if (input_blocks == output_blocks)
    return "they must have the same length" +
           (input_blocks > 1 ? ", a multiple of " + std::to_string(input_blocks) : "");
  const bool gathers = output_blocks > input_blocks;
  return std::string("the ") + (gathers ? "output" : "input") + " must be " +
         std::to_string(std::max(input_blocks, output_blocks)) + " times as long as the " +
         (gathers ? "input" : "output") + ", a block for each rank";
}

} // namespace

CollectiveCall checkedCall(Collective collective, int rank, int ranks, const Array& input,
                           const Array& output, ReduceOp op, int root) {
  const Used blocks = usedBy(collective, rank, ranks, root);
  const std::size_t count = blocks.input > 0
                                ? input.size / blocks.input
                                : output.size / std::max<std::size_t>(blocks.output, 1);
  const bool fit = (blocks.input == 0 || input.size == count * blocks.input) &&
                   (blocks.output == 0 || output.size == count * blocks.output);
  if (!fit && blocks.input > 0 && blocks.output > 0)
    refuse(collective, "input has " + elements(input.size) + " and output " +
                           elements(output.size) + "; " +
                           rightLengths(blocks.input, blocks.output));
  if (!fit) refuse(collective, indivisible(blocks.input > 0 ? input.size : output.size, ranks));
  return {.collective = collective,
          .input = blocks.input > 0 ? input.data : nullptr,
          .output = blocks.output > 0 ? output.data : nullptr,
          .count = count,
          .type = output.type,
          .op = op,
          .root = root};
}

CollectiveCall checkedInPlace(Collective collective, int rank, int ranks, const Array& data,
                              ReduceOp op, int root) {
  const Used blocks = usedBy(collective, rank, ranks, root);
  const std::size_t most = std::max({blocks.input, blocks.output, std::size_t{1}});
  if (data.size % most != 0) refuse(collective, indivisible(data.size, static_cast<int>(most)));
  const std::size_t count = data.size / most;
  // The buffer with fewer blocks is the rank's own block of the other one.
  const auto at = [&](std::size_t own, std::size_t other,
                      const detail::BufferBlocks& larger) -> void* {
    if (own == 0) return nullptr;
    const std::size_t block = own < other ? larger.own(rank) : 0;
    return static_cast<std::byte*>(data.data) + block * count * sizeOf(data.type);
  };
  const detail::CollectiveTraits& of = traits(collective);
  return {.collective = collective,
          .input = at(blocks.input, blocks.output, of.output),
          .output = at(blocks.output, blocks.input, of.input),
          .count = count,
          .type = data.type,
          .op = op,
          .root = root};
}

} // namespace rondo::detail
