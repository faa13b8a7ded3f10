// Typed forms of the collectives: arrays of C++ types, from which count and element type follow.
#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "rondo/collective_call.h"
#include "rondo/export.h"
#include "rondo/types.h"
#include "rondo/work.h"

namespace rondo {

/// The DataType of a C++ type: integers by size and sign, float, double. A program may specialize
/// ElementTraits for its own 16- and 8-bit floats:
///
///     template <> struct rondo::ElementTraits<Half> {
///       static constexpr DataType kType = DataType::float16;
///     };
template <class T>
struct ElementTraits {};
template <std::integral T>
requires(!std::same_as<T, bool> &&
         detail::integerType(std::is_signed_v<T>, sizeof(T)).has_value()) struct ElementTraits<T> {
  static constexpr DataType kType = *detail::integerType(std::is_signed_v<T>, sizeof(T));
};
template <>
struct ElementTraits<float> {
  static constexpr DataType kType = DataType::float32;
};
template <>
struct ElementTraits<double> {
  static constexpr DataType kType = DataType::float64;
};

/// A span, vector, std::array or C array of elements that Rondo has.
template <class Array>
concept Elements = requires(Array& array) {
  std::span(array);
  ElementTraits<typename decltype(std::span(array))::value_type>::kType;
};
template <class Array>
concept WritableElements = Elements<Array> &&
    !std::is_const_v<typename decltype(std::span(std::declval<Array&>()))::element_type>;
/// An argument whose elements outlive the call: not a temporary vector or array. Asynchronous
/// calls, and all calls of a Group, use their buffers after the function has returned.
template <class Argument>
concept Outlasts = std::is_lvalue_reference_v<Argument> ||
    std::ranges::enable_borrowed_range<std::remove_cvref_t<Argument>>;
template <class Argument>
concept CallInput = Elements<Argument> && Outlasts<Argument>;
template <class Argument>
concept CallOutput = WritableElements<Argument> && Outlasts<Argument>;
template <class A, class B>
concept SameElements = std::same_as<typename decltype(std::span(std::declval<A&>()))::value_type,
                                    typename decltype(std::span(std::declval<B&>()))::value_type>;

namespace detail {

struct Array {
  void* data = nullptr; ///< written only if it is the output
  std::size_t size = 0;
  DataType type{};

  template <Elements A>
  static Array of(A& array) {
    const std::span span(array);
    using T = typename decltype(span)::value_type;
    return {const_cast<T*>(span.data()), span.size(), ElementTraits<T>::kType};
  }
};

/// Throws Error(invalid_argument) if the lengths do not fit each other.
RONDO_API CollectiveCall checkedCall(Collective collective, int rank, int ranks, const Array& input,
                                     const Array& output, ReduceOp op, int root);
/// `data`: the larger buffer of the call on this rank; it contains the other one.
RONDO_API CollectiveCall checkedInPlace(Collective collective, int rank, int ranks,
                                        const Array& data, ReduceOp op, int root);

} // namespace detail

/// The typed forms, which Communicator inherits. Each does what the form of the same name with
/// pointers does (communicator.h), and has an Async form.
///
/// Arguments. `input` and `output` are arrays of one type: spans, vectors, std::arrays, C arrays.
/// Temporary vectors and arrays do not compile, because a call may use its buffers later.
/// Their lengths give the count, and must fit each other: a buffer that has one block for each rank
/// must be size() times as long as one that has a single block, or Error(invalid_argument) is
/// thrown, which names both lengths; nothing was sent. An array that the call does not use on this
/// rank (on ranks other than the root, the buffer that only the root uses; on rank 0, the output of
/// an exclusive scan) is ignored and may be empty. There are no typed v-forms, and no allToAll in
/// place.
///
/// In place. A call with one array, `data`, is made in place. `data` is the larger of the two
/// buffers of this rank; the smaller one is this rank's block of it.
///
///     std::vector<float> gradients(1000, comm.rank() + 1.0F);
///     comm.allReduce(gradients, ReduceOp::avg);
///     std::vector<float> all(gradients.size() * static_cast<std::size_t>(comm.size()));
///     comm.allGather(gradients, all);
template <class Self>
class TypedCalls {
 public:
  // clang-format off
#define RONDO_CALL(function, collective, parameters)                                             \
  template <CallInput Input, CallOutput Output> requires SameElements<Input, Output>             \
  void function(Input&& input, Output&& output RONDO_PARAMETERS_##parameters) {                  \
    self().call(make(Collective::collective, input, output, RONDO_ARGUMENTS_##parameters));      \
  }                                                                                              \
  template <CallInput Input, CallOutput Output> requires SameElements<Input, Output>             \
  Work function##Async(Input&& input, Output&& output RONDO_PARAMETERS_##parameters) {           \
    return self().callAsync(                                                                     \
        make(Collective::collective, input, output, RONDO_ARGUMENTS_##parameters));              \
  }                                                                                              \
  template <CallOutput Data> requires(traits(Collective::collective).in_place)                   \
  void function(Data&& data RONDO_PARAMETERS_##parameters) {                                     \
    self().call(make(Collective::collective, data, RONDO_ARGUMENTS_##parameters));               \
  }                                                                                              \
  template <CallOutput Data> requires(traits(Collective::collective).in_place)                   \
  Work function##Async(Data&& data RONDO_PARAMETERS_##parameters) {                              \
    return self().callAsync(make(Collective::collective, data, RONDO_ARGUMENTS_##parameters));   \
  }
#include "rondo/detail/collectives.def"
  // clang-format on

  template <CallInput Input>
  void send(Input&& input, int peer) {
    self().call(message(detail::Array::of(input), peer, true));
  }
  template <CallInput Input>
  Work sendAsync(Input&& input, int peer) {
    return self().callAsync(message(detail::Array::of(input), peer, true));
  }
  template <CallOutput Output>
  void recv(Output&& output, int peer) {
    self().call(message(detail::Array::of(output), peer, false));
  }
  template <CallOutput Output>
  Work recvAsync(Output&& output, int peer) {
    return self().callAsync(message(detail::Array::of(output), peer, false));
  }

 protected:
  TypedCalls() = default;

 private:
  Self& self() { return static_cast<Self&>(*this); }

  CollectiveCall make(Collective collective, auto& input, auto& output, ReduceOp op, int root) {
    return detail::checkedCall(collective, self().rank(), self().size(), detail::Array::of(input),
                               detail::Array::of(output), op, root);
  }
  CollectiveCall make(Collective collective, auto& data, ReduceOp op, int root) {
    return detail::checkedInPlace(collective, self().rank(), self().size(), detail::Array::of(data),
                                  op, root);
  }
  static CollectiveCall message(const detail::Array& array, int peer, bool sending) {
    return {.collective = Collective::sendrecv,
            .input = sending ? array.data : nullptr,
            .output = sending ? nullptr : array.data,
            .count = array.size,
            .type = array.type,
            .root = peer,
            .sending = sending};
  }
};

} // namespace rondo
