// One call of the public API, as a value: what is validated, signed, planned and run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "comm/layout.h"
#include "rondo/types.h"

namespace rondo::comm {

struct Call {
  Collective collective = Collective::barrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0; ///< elements of one block; v-forms: of the buffer with one block
  DataType type = DataType::int8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;                                   ///< Send and Recv: the peer
  bool sending = false;                           ///< Send (true) or Recv (false)
  std::shared_ptr<const Layout> layout = nullptr; ///< v-forms only
};

/// The buffers of a call on one rank; not for v-forms.
struct Buffers {
  std::size_t input_bytes = 0, output_bytes = 0; ///< 0: not used
  bool may_coincide = false;                     ///< the call may be done in place
  std::size_t output_behind =
      0; ///< in place: from the input's address to the output's, modulo 2^64

  /// Whether they are there, and apart or in place.
  bool fit(const void* input, const void* output) const {
    const auto in = reinterpret_cast<std::uintptr_t>(input);
    const auto out = reinterpret_cast<std::uintptr_t>(output);
    if ((input_bytes > 0 && in == 0) || (output_bytes > 0 && out == 0)) return false;
    return input_bytes == 0 || output_bytes == 0 || in + input_bytes <= out ||
           out + output_bytes <= in || (may_coincide && out - in == output_behind);
  }
};

/// Of a call that is valid but perhaps for its buffers.
Buffers buffersOf(const Call& call, int rank, int size);

/// Throws Error(invalid_argument) that names the argument and the call.
void validate(const Call& call, int rank, int size);

/// "AllReduce", "Send", ...: as NCCL spells them.
std::string title(const Call& call);

/// 64 bits that say what was called; equal on all ranks of a correct program. It travels with every
/// message, and can be read back: collective 4 (v-forms have numbers of their own), type 4,
/// operator 4, root 12, sequence 8 (here 0), count 32 bits (the count folded by exclusive or of its
/// halves; of v-forms the sum of all counts where every rank knows them, else 0).
std::uint64_t sign(const Call& call);
constexpr std::uint64_t numbered(std::uint64_t signature, std::uint64_t sequence) {
  return signature | (sequence & 0xff) << 32;
}

/// "AllReduce #412 (sum of 1000 float)". `near` is a sequence number from which the signature's is
/// less than 128 away.
std::string describe(std::uint64_t signature, std::uint64_t near);

} // namespace rondo::comm
