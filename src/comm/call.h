// One call of the public API as a value, which is validated, signed, planned and run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/registry.h"
#include "rondo/collective_call.h"
#include "rondo/types.h"

namespace rondo::comm {

using Call = CollectiveCall;

/// A v-form call together with its block tables.
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
  CollectiveCall::Tables layout_;
  Call call_;
};

/// A call that is kept until its Group ends, with its own copy of the block tables.
class KeptCall {
 public:
  explicit KeptCall(const Call& call);
  KeptCall(const KeptCall&) = delete;
  KeptCall& operator=(const KeptCall&) = delete;

  operator const Call&() const { return call_; }

 private:
  Blocks keep(const Blocks& blocks);

  std::vector<std::size_t> tables_;
  CollectiveCall::Tables layout_;
  Call call_;
};

/// Sizes and positions of a call's buffers on one rank.
struct Buffers {
  std::size_t input_bytes = 0, output_bytes = 0; ///< 0: not used; v-forms: from first to last block
  bool may_coincide = false;                     ///< the call may run in place
  /// The distance from input to output, modulo 2^64, that means "in place". In v-forms it is
  /// measured between the buffers' first blocks, at input_at and output_at bytes after the buffers'
  /// addresses.
  std::size_t output_behind = 0;
  std::size_t input_at = 0, output_at = 0;

  /// Whether all used buffers are non-null, and disjoint or exactly in place.
  bool fit(const void* input, const void* output) const {
    const auto in = reinterpret_cast<std::uintptr_t>(input);
    const auto out = reinterpret_cast<std::uintptr_t>(output);
    if ((input_bytes > 0 && in == 0) || (output_bytes > 0 && out == 0)) return false;
    return input_bytes == 0 || output_bytes == 0 || in + input_bytes <= out ||
           out + output_bytes <= in || (may_coincide && out - in == output_behind);
  }
  /// The same for a v-form.
  bool fitUneven(const void* input, const void* output) const {
    if ((input_bytes > 0 && !input) || (output_bytes > 0 && !output)) return false;
    return fit(static_cast<const char*>(input) + input_at,
               static_cast<const char*>(output) + output_at);
  }
};

/// Returns the sizes and positions of a call's buffers. The call must be valid; only if it is no
/// v-form may its buffers be wrong. Whether the blocks of a v-form overlap depends only on the
/// distance between input and output, so the result holds for all calls with this distance.
Buffers buffersOf(const Call& call, int rank, int size);

/// Throws Error(invalid_argument) if the value names no collective.
void checkCollective(Collective collective);
/// Throws Error(invalid_argument) for a wrong type, operator, root or count. Looks at no buffers.
/// The collective must have passed checkCollective().
void validateShape(const Call& call, int size);
/// Throws Error(invalid_argument), which names the call and the argument. The collective must have
/// passed checkCollective().
void validate(const Call& call, int rank, int size);

/// "AllReduce", "Send", ...: in NCCL's spelling.
std::string title(const Call& call);

/// Elements, as the call names them. ReduceScatterv and AllGatherv: of all blocks together. Other
/// v-forms: 0.
std::size_t countOf(const Call& call);

/// A 64-bit signature of the call, equal on all ranks of a correct program. It is sent with every
/// message, and describe() decodes it. Bits: collective with operator and root 20 (v-forms have
/// numbers of their own), type 4, sequence 8 (here 0), count 32: countOf() below 2^31, otherwise
/// the highest bit and a hash of countOf() with 30 bits.
///
/// `named`: the algorithm that the call names. The count then has its two highest bits set, the
/// algorithm's number in 5 bits, and in 25 bits countOf() below 2^24, or, if it is larger or the
/// algorithm has parameters, the highest of these bits and a hash of all of them.
std::uint64_t sign(const Call& call, const plan::Choice* named = nullptr);
constexpr std::uint64_t numbered(std::uint64_t signature, std::uint64_t sequence) {
  return signature | (sequence & 0xff) << 32;
}

/// Decodes a signature: "AllReduce #412 (sum of 1000 float)". `near` is a sequence number that is
/// less than 128 away from the signature's.
std::string describe(std::uint64_t signature, std::uint64_t near);

} // namespace rondo::comm
