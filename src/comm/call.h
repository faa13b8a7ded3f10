// One call of the public API, as a value: what is validated, signed, planned and run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/types.h"

namespace rondo::comm {

/// The blocks of a v-form, of the buffers that the call uses on this rank; the other's are none.
struct CallBlocks {
  Blocks input, output;
};

struct Call {
  Collective collective = Collective::barrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0; ///< elements of one block; v-forms: of the buffer with one block
  DataType type = DataType::int8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;                       ///< Send and Recv: the peer
  bool sending = false;               ///< Send (true) or Recv (false)
  const CallBlocks* layout = nullptr; ///< v-forms only; the caller's, as long as it is in the call
};

/// A v-form call with its layout.
class UnevenCall {
 public:
  UnevenCall(const Call& call, const Blocks& input, const Blocks& output)
      : layout_{input, output}, call_(call) {
    call_.layout = &layout_;
  }
  UnevenCall(const UnevenCall&) = delete;
  UnevenCall& operator=(const UnevenCall&) = delete;

  operator const Call&() const { return call_; }

 private:
  CallBlocks layout_;
  Call call_;
};

/// A call that is kept until its Group ends, with tables of its own.
class KeptCall {
 public:
  explicit KeptCall(const Call& call);
  KeptCall(const KeptCall&) = delete;
  KeptCall& operator=(const KeptCall&) = delete;

  operator const Call&() const { return call_; }

 private:
  Blocks keep(const Blocks& blocks);

  std::vector<std::size_t> tables_;
  CallBlocks layout_;
  Call call_;
};

/// The buffers of a call on one rank.
struct Buffers {
  std::size_t input_bytes = 0, output_bytes = 0; ///< 0: not used; v-forms: with gaps in between
  bool may_coincide = false;                     ///< the call may be done in place
  /// In place: from the input's address to the output's, modulo 2^64; v-forms: between those of
  /// their first blocks, which lie so many bytes behind the buffers' addresses.
  std::size_t output_behind = 0;
  std::size_t input_at = 0, output_at = 0;

  /// Whether they are there, and apart or in place.
  bool fit(const void* input, const void* output) const {
    const auto in = reinterpret_cast<std::uintptr_t>(input);
    const auto out = reinterpret_cast<std::uintptr_t>(output);
    if ((input_bytes > 0 && in == 0) || (output_bytes > 0 && out == 0)) return false;
    return input_bytes == 0 || output_bytes == 0 || in + input_bytes <= out ||
           out + output_bytes <= in || (may_coincide && out - in == output_behind);
  }
  /// Of a v-form.
  bool fitUneven(const void* input, const void* output) const {
    if ((input_bytes > 0 && !input) || (output_bytes > 0 && !output)) return false;
    return fit(static_cast<const char*>(input) + input_at,
               static_cast<const char*>(output) + output_at);
  }
};

/// Of a call that is valid but perhaps for its buffers. Of a v-form that is valid: whether its
/// blocks are apart follows from how far apart its buffers are, so those that are as far apart as
/// this call's fit too.
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
