// Typed calls of Communicator: the element type and the count come from the buffers, and lengths
// are checked. Included by communicator.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "rondo/error.h"
#include "rondo/types.h"
#include "rondo/work.h"

namespace rondo {

/// Where the blocks of a v-form lie in a buffer that has one for each rank: block r has counts[r]
/// elements and begins offsets[r] elements after the start of the buffer. Both have size() entries;
/// they are read during the call only, also by the Async forms. Blocks that are written must not
/// overlap.
struct Blocks {
  std::span<const std::size_t> counts, offsets;
};

/// The DataType of C++ type T, in `value`. Specialise it for 16- and 8-bit float types of your own.
template <class T>
struct DataTypeOf;

template <class T>
requires((std::is_integral_v<T> && !std::is_same_v<T, bool>) ||
         std::is_same_v<T, std::byte>) struct DataTypeOf<T> {
  static_assert(sizeof(T) <= 8);
  static constexpr int kSize = sizeof(T) == 8 ? 3 : sizeof(T) == 4 ? 2 : sizeof(T) == 2 ? 1 : 0;
  static constexpr DataType value =
      static_cast<DataType>(2 * kSize + (std::is_signed_v<T> || std::is_same_v<T, char> ? 0 : 1));
};
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::float32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::float64;
};

/// What std::span can be made of: std::vector, std::array, std::span, an array.
template <class Buffer>
using ElementOf = typename decltype(std::span(std::declval<Buffer&>()))::element_type;

template <class Buffer>
concept Elements = requires {
  DataTypeOf<std::remove_cv_t<ElementOf<Buffer>>>::value;
};
template <class Buffer>
concept MutableElements = Elements<Buffer> && !std::is_const_v<ElementOf<Buffer>>;
template <class Output, class Input>
concept ElementsLike = MutableElements<Output> &&
    std::is_same_v<std::remove_cv_t<ElementOf<Input>>, ElementOf<Output>>;

/// A buffer as the untyped calls take it.
struct TypedBuffer {
  void* data;
  std::size_t count;
  DataType type;

  template <Elements Buffer>
  explicit TypedBuffer(Buffer& buffer)
      : data(const_cast<std::remove_cv_t<ElementOf<Buffer>>*>(std::span(buffer).data())),
        count(std::span(buffer).size()),
        type(DataTypeOf<std::remove_cv_t<ElementOf<Buffer>>>::value) {}

  /// Throws Error(invalid_argument) unless the buffer has `expected` elements.
  void require(const char* call, const char* argument, std::size_t expected) const {
    if (count != expected)
      throw Error(ErrorCode::invalid_argument,
                  std::string(call) + ": " + argument + " has " + std::to_string(count) +
                      " elements, and must have " + std::to_string(expected));
  }
  /// Throws Error(invalid_argument) unless the blocks lie in the buffer.
  void requireBlocks(const char* call, const char* argument, std::span<const std::size_t> counts,
                     std::span<const std::size_t> offsets) const {
    for (std::size_t r = 0; r < counts.size() && r < offsets.size(); ++r)
      if (counts[r] > count || offsets[r] > count - counts[r])
        throw Error(ErrorCode::invalid_argument,
                    std::string(call) + ": block " + std::to_string(r) + " ends after the " +
                        std::to_string(count) + " elements of " + argument);
  }
};

/// The typed calls, a base of Communicator. What each collective does, its errors and its order are
/// documented at the untyped call of the same name; here, `input` and `output` are anything that
/// std::span can be made of (std::vector, std::array, std::span, an array) with elements of one
/// type that has a DataTypeOf. The count is the buffer's. Buffers of the wrong length throw
/// Error(invalid_argument), which names buffer and lengths, on this rank alone, and nothing is
/// sent. Buffers of the Async forms must live until the call is done.
///
///     std::vector<float> gradients(1000, comm.rank() + 1.0F);
///     comm.allReduce(gradients, ReduceOp::avg);
template <class Comm>
class TypedCalls {
 public:
  /// In place.
  template <MutableElements Buffer>
  void allReduce(Buffer&& buffer, ReduceOp op) {
    const TypedBuffer both(buffer);
    return self().allReduce(both.data, both.data, both.count, both.type, op);
  }
  template <MutableElements Buffer>
  Work allReduceAsync(Buffer&& buffer, ReduceOp op) {
    const TypedBuffer both(buffer);
    return self().allReduceAsync(both.data, both.data, both.count, both.type, op);
  }
  /// Equal lengths.
  template <Elements Input, ElementsLike<Input> Output>
  void allReduce(const Input& input, Output&& output, ReduceOp op) {
    const TypedBuffer in(input), out(output);
    out.require("AllReduce", "output", in.count);
    return self().allReduce(in.data, out.data, in.count, in.type, op);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work allReduceAsync(const Input& input, Output&& output, ReduceOp op) {
    const TypedBuffer in(input), out(output);
    out.require("AllReduce", "output", in.count);
    return self().allReduceAsync(in.data, out.data, in.count, in.type, op);
  }
  /// In place.
  template <MutableElements Buffer>
  void reduce(Buffer&& buffer, ReduceOp op, int root) {
    const TypedBuffer both(buffer);
    return self().reduce(both.data, both.data, both.count, both.type, op, root);
  }
  template <MutableElements Buffer>
  Work reduceAsync(Buffer&& buffer, ReduceOp op, int root) {
    const TypedBuffer both(buffer);
    return self().reduceAsync(both.data, both.data, both.count, both.type, op, root);
  }
  /// Equal lengths on root; elsewhere output is not used.
  template <Elements Input, ElementsLike<Input> Output>
  void reduce(const Input& input, Output&& output, ReduceOp op, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root) out.require("Reduce", "output", in.count);
    return self().reduce(in.data, out.data, in.count, in.type, op, root);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work reduceAsync(const Input& input, Output&& output, ReduceOp op, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root) out.require("Reduce", "output", in.count);
    return self().reduceAsync(in.data, out.data, in.count, in.type, op, root);
  }
  /// input has size() times as many elements as output.
  template <Elements Input, ElementsLike<Input> Output>
  void reduceScatter(const Input& input, Output&& output, ReduceOp op) {
    const TypedBuffer in(input), out(output);
    in.require("ReduceScatter", "input", out.count * ranks());
    return self().reduceScatter(in.data, out.data, out.count, out.type, op);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work reduceScatterAsync(const Input& input, Output&& output, ReduceOp op) {
    const TypedBuffer in(input), out(output);
    in.require("ReduceScatter", "input", out.count * ranks());
    return self().reduceScatterAsync(in.data, out.data, out.count, out.type, op);
  }
  /// In place: root's buffer goes to all ranks.
  template <MutableElements Buffer>
  void broadcast(Buffer&& buffer, int root) {
    const TypedBuffer both(buffer);
    return self().broadcast(both.data, both.data, both.count, both.type, root);
  }
  template <MutableElements Buffer>
  Work broadcastAsync(Buffer&& buffer, int root) {
    const TypedBuffer both(buffer);
    return self().broadcastAsync(both.data, both.data, both.count, both.type, root);
  }
  /// On root input has size() times as many elements as output; elsewhere it is not used.
  template <Elements Input, ElementsLike<Input> Output>
  void scatter(const Input& input, Output&& output, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root) in.require("Scatter", "input", out.count * ranks());
    return self().scatter(in.data, out.data, out.count, out.type, root);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work scatterAsync(const Input& input, Output&& output, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root) in.require("Scatter", "input", out.count * ranks());
    return self().scatterAsync(in.data, out.data, out.count, out.type, root);
  }
  /// On root output has size() times as many elements as input; elsewhere it is not used.
  template <Elements Input, ElementsLike<Input> Output>
  void gather(const Input& input, Output&& output, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root) out.require("Gather", "output", in.count * ranks());
    return self().gather(in.data, out.data, in.count, in.type, root);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work gatherAsync(const Input& input, Output&& output, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root) out.require("Gather", "output", in.count * ranks());
    return self().gatherAsync(in.data, out.data, in.count, in.type, root);
  }
  /// output has size() times as many elements as input.
  template <Elements Input, ElementsLike<Input> Output>
  void allGather(const Input& input, Output&& output) {
    const TypedBuffer in(input), out(output);
    out.require("Allgather", "output", in.count * ranks());
    return self().allGather(in.data, out.data, in.count, in.type);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work allGatherAsync(const Input& input, Output&& output) {
    const TypedBuffer in(input), out(output);
    out.require("Allgather", "output", in.count * ranks());
    return self().allGatherAsync(in.data, out.data, in.count, in.type);
  }
  /// Equal lengths, a multiple of size().
  template <Elements Input, ElementsLike<Input> Output>
  void allToAll(const Input& input, Output&& output) {
    const TypedBuffer in(input), out(output);
    in.require("AlltoAll", "input", in.count / ranks() * ranks());
    out.require("AlltoAll", "output", in.count);
    return self().allToAll(in.data, out.data, in.count / ranks(), in.type);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work allToAllAsync(const Input& input, Output&& output) {
    const TypedBuffer in(input), out(output);
    in.require("AlltoAll", "input", in.count / ranks() * ranks());
    out.require("AlltoAll", "output", in.count);
    return self().allToAllAsync(in.data, out.data, in.count / ranks(), in.type);
  }
  /// output has blocks.counts[rank()] elements.
  template <Elements Input, ElementsLike<Input> Output>
  void reduceScatterv(const Input& input, Blocks blocks, Output&& output, ReduceOp op) {
    const TypedBuffer in(input), out(output);
    in.requireBlocks("ReduceScatterv", "input", blocks.counts, blocks.offsets);
    requireOwn("ReduceScatterv", "output", out, blocks);
    return self().reduceScatterv(in.data, blocks, out.data, out.type, op);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work reduceScattervAsync(const Input& input, Blocks blocks, Output&& output, ReduceOp op) {
    const TypedBuffer in(input), out(output);
    in.requireBlocks("ReduceScatterv", "input", blocks.counts, blocks.offsets);
    requireOwn("ReduceScatterv", "output", out, blocks);
    return self().reduceScattervAsync(in.data, blocks, out.data, out.type, op);
  }
  /// blocks lie in input, which is used on root alone.
  template <Elements Input, ElementsLike<Input> Output>
  void scatterv(const Input& input, Blocks blocks, Output&& output, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root) in.requireBlocks("Scatterv", "input", blocks.counts, blocks.offsets);
    return self().scatterv(in.data, blocks, out.data, out.count, out.type, root);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work scattervAsync(const Input& input, Blocks blocks, Output&& output, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root) in.requireBlocks("Scatterv", "input", blocks.counts, blocks.offsets);
    return self().scattervAsync(in.data, blocks, out.data, out.count, out.type, root);
  }
  /// blocks lie in output, which is used on root alone.
  template <Elements Input, ElementsLike<Input> Output>
  void gatherv(const Input& input, Output&& output, Blocks blocks, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root)
      out.requireBlocks("Gatherv", "output", blocks.counts, blocks.offsets);
    return self().gatherv(in.data, in.count, out.data, blocks, in.type, root);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work gathervAsync(const Input& input, Output&& output, Blocks blocks, int root) {
    const TypedBuffer in(input), out(output);
    if (self().rank() == root)
      out.requireBlocks("Gatherv", "output", blocks.counts, blocks.offsets);
    return self().gathervAsync(in.data, in.count, out.data, blocks, in.type, root);
  }
  /// input has blocks.counts[rank()] elements; blocks lie in output.
  template <Elements Input, ElementsLike<Input> Output>
  void allGatherv(const Input& input, Output&& output, Blocks blocks) {
    const TypedBuffer in(input), out(output);
    out.requireBlocks("Allgatherv", "output", blocks.counts, blocks.offsets);
    return self().allGatherv(in.data, in.count, out.data, blocks, in.type);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work allGathervAsync(const Input& input, Output&& output, Blocks blocks) {
    const TypedBuffer in(input), out(output);
    out.requireBlocks("Allgatherv", "output", blocks.counts, blocks.offsets);
    return self().allGathervAsync(in.data, in.count, out.data, blocks, in.type);
  }
  /// Blocks lie in their buffers.
  template <Elements Input, ElementsLike<Input> Output>
  void allToAllv(const Input& input, Blocks input_blocks, Output&& output, Blocks output_blocks) {
    const TypedBuffer in(input), out(output);
    in.requireBlocks("AlltoAllv", "input", input_blocks.counts, input_blocks.offsets);
    out.requireBlocks("AlltoAllv", "output", output_blocks.counts, output_blocks.offsets);
    return self().allToAllv(in.data, input_blocks, out.data, output_blocks, in.type);
  }
  template <Elements Input, ElementsLike<Input> Output>
  Work allToAllvAsync(const Input& input, Blocks input_blocks, Output&& output,
                      Blocks output_blocks) {
    const TypedBuffer in(input), out(output);
    in.requireBlocks("AlltoAllv", "input", input_blocks.counts, input_blocks.offsets);
    out.requireBlocks("AlltoAllv", "output", output_blocks.counts, output_blocks.offsets);
    return self().allToAllvAsync(in.data, input_blocks, out.data, output_blocks, in.type);
  }

  template <Elements Input>
  void send(const Input& input, int peer) {
    const TypedBuffer in(input);
    return self().send(in.data, in.count, in.type, peer);
  }
  template <Elements Input>
  Work sendAsync(const Input& input, int peer) {
    const TypedBuffer in(input);
    return self().sendAsync(in.data, in.count, in.type, peer);
  }
  template <MutableElements Output>
  void recv(Output&& output, int peer) {
    const TypedBuffer out(output);
    return self().recv(out.data, out.count, out.type, peer);
  }
  template <MutableElements Output>
  Work recvAsync(Output&& output, int peer) {
    const TypedBuffer out(output);
    return self().recvAsync(out.data, out.count, out.type, peer);
  }

 private:
  Comm& self() { return static_cast<Comm&>(*this); }
  std::size_t ranks() { return static_cast<std::size_t>(self().size()); }
  void requireOwn(const char* call, const char* argument, const TypedBuffer& buffer,
                  const Blocks& blocks) {
    const auto rank = static_cast<std::size_t>(self().rank());
    if (rank < blocks.counts.size()) buffer.require(call, argument, blocks.counts[rank]);
  }
};

} // namespace rondo
