// Keeps a rank's last calls, so that ranks which make different calls are found.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/codec.h"

namespace rondo::bootstrap {

/// Turns a signature into text: "Broadcast #4 (100 float, root 1)".
using DescribeSignature = std::string (*)(std::uint64_t signature, std::uint64_t sequence);

/// A part of a CallLog as it is sent. At scale 0 a block is one call and its value is the call's
/// signature. At scales 1 and 2 a block is 64 and 4096 calls, and its value is a hash of all calls
/// up to its last one. Each step of the hash is one-to-one, so two ranks that differed once differ
/// in every later block. Therefore some common block shows the difference, however far the ranks
/// are apart and whenever they report.
struct CallReport {
  static constexpr int kScales = 3;
  static constexpr std::uint64_t kSlots = 64; ///< blocks kept per scale
  static constexpr int kBits = 6;             ///< log2 of kSlots, and of the ratio between scales

  /// The values of consecutive blocks, at most kSlots.
  struct Blocks {
    std::uint64_t first = 0;
    std::vector<std::uint64_t> values;
  };

  std::uint64_t entered = 0; ///< number of the last call
  std::array<Blocks, kScales> scales;

  void write(base::Writer& out) const;
  static CallReport read(base::Reader& in);
  std::size_t wireBytes() const;
};

/// The live log. One thread at a time enters calls; any thread may read at the same time.
class CallLog {
 public:
  /// Calls are numbered from 1, without gaps.
  void enter(std::uint64_t sequence, std::uint64_t signature) {
    hash_ = (hash_ ^ signature) * kFactor;
    slot(0, sequence).store(signature, std::memory_order_release);
    // The value of a longer block counts only from its last call on.
    if (lastOf(1, sequence)) [[unlikely]] {
      slot(1, sequence).store(hash_, std::memory_order_release);
      if (lastOf(2, sequence)) slot(2, sequence).store(hash_, std::memory_order_release);
    }
    entered_.store(sequence, std::memory_order_release);
  }
  std::uint64_t entered() const { return entered_.load(std::memory_order_acquire); }

  /// A report of the calls after number `reported`, as far as the log still has them: per scale the
  /// last kSlots blocks.
  CallReport since(std::uint64_t reported) const;

 private:
  static constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15; ///< odd: one-to-one

  static bool lastOf(int scale, std::uint64_t sequence) {
    return ((sequence + 1) & ((std::uint64_t{1} << scale * CallReport::kBits) - 1)) == 0;
  }
  std::atomic<std::uint64_t>& slot(int scale, std::uint64_t sequence) {
    return slots_[static_cast<std::size_t>(scale)]
                 [(sequence >> scale * CallReport::kBits) % CallReport::kSlots];
  }

  std::uint64_t hash_ = 0; ///< used by the entering thread only
  std::atomic<std::uint64_t> entered_{0};
  std::array<std::array<std::atomic<std::uint64_t>, CallReport::kSlots>, CallReport::kScales>
      slots_{};
};

/// Two ranks made different calls, between numbers `first` and `last`. If these are equal, the
/// signatures are known.
struct CallDifference {
  std::uint64_t first = 0, last = 0;
  int odd = 0, other = 0; ///< ranks; `odd` is in the minority, or has the higher number
  std::uint64_t odd_signature = 0, other_signature = 0;

  /// "rank 1 calls Broadcast #4 (100 float, root 1) where rank 0 calls Broadcast #4 (...)".
  std::string text(DescribeSignature describe) const;
  void write(base::Writer& out) const;
  static CallDifference read(base::Reader& in);
};

/// The first call in which ranks differ. Element r of `reports` is rank r's, or null.
std::optional<CallDifference> firstDifference(const std::vector<const CallReport*>& reports);

/// Compares the ranks' reports as they arrive. Keeps one copy of the calls on which they agree.
class CallComparison {
 public:
  /// The first difference between this report and an earlier one of another rank.
  std::optional<CallDifference> add(int rank, const CallReport& report);

 private:
  struct Slot {
    std::uint64_t block = 0, value = 0;
    int rank = -1; ///< the rank that reported it; -1: none yet
  };
  std::vector<Slot> slots_; ///< kSlots per scale; empty before the first report
};

} // namespace rondo::bootstrap
