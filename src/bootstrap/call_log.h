// What one rank called last, kept so that ranks which call different things are found.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/codec.h"

namespace rondo::bootstrap {

/// How a signature is told to people: "Broadcast #4 (100 float, root 1)".
using DescribeSignature = std::string (*)(std::uint64_t signature, std::uint64_t sequence);

/// A part of a CallLog, as it travels. At scale 0 a block is one call, whose value is its
/// signature. At scales 1 and 2 it is 64 and 4096 calls, and its value a hash of all calls up to
/// its last one. Each step of the hash is one-to-one, so ranks that differed once differ in every
/// later block: however fast they are, and whenever they report, some block is common.
struct CallReport {
  static constexpr int kScales = 3;
  static constexpr std::uint64_t kSlots = 64; ///< blocks that are kept of each scale
  static constexpr int kBits = 6;             ///< of kSlots; and a block holds so many smaller ones

  /// Of consecutive blocks, at most kSlots.
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

/// The live log. One thread at a time enters calls; any thread reads meanwhile.
class CallLog {
 public:
  /// Calls are numbered from 1 on, without gaps.
  void enter(std::uint64_t sequence, std::uint64_t signature) {
    hash_ = (hash_ ^ signature) * kFactor;
    slot(0, sequence).store(signature, std::memory_order_release);
    slot(1, sequence).store(hash_, std::memory_order_release);
    slot(2, sequence).store(hash_, std::memory_order_release);
    entered_.store(sequence, std::memory_order_release);
  }
  std::uint64_t entered() const { return entered_.load(std::memory_order_acquire); }

  /// What is kept of the calls after number `reported`.
  CallReport since(std::uint64_t reported) const;

 private:
  static constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15; ///< odd, so that it can be undone

  std::atomic<std::uint64_t>& slot(int scale, std::uint64_t sequence) {
    return slots_[static_cast<std::size_t>(scale)]
                 [(sequence >> scale * CallReport::kBits) % CallReport::kSlots];
  }

  std::uint64_t hash_ = 0; ///< the entering thread's
  std::atomic<std::uint64_t> entered_{0};
  std::array<std::array<std::atomic<std::uint64_t>, CallReport::kSlots>, CallReport::kScales>
      slots_{};
};

/// Two ranks that called different things. `first` to `last` is where; with one call its signatures
/// are known.
struct CallDifference {
  std::uint64_t first = 0, last = 0;
  int odd = 0, other = 0; ///< ranks; `odd` is in the minority, or has the higher number
  std::uint64_t odd_signature = 0, other_signature = 0;

  /// "rank 1 calls Broadcast #4 (100 float, root 1) where rank 0 calls Broadcast #4 (...)".
  std::string text(DescribeSignature describe) const;
  void write(base::Writer& out) const;
  static CallDifference read(base::Reader& in);
};

/// The first call that not all ranks called alike, by the reports of all; element r is rank r's.
std::optional<CallDifference> firstDifference(const std::vector<const CallReport*>& reports);

/// Compares the reports of many ranks as they come, and keeps only one copy of what they agree on.
class CallComparison {
 public:
  /// The first place where this rank's report differs from what another one said.
  std::optional<CallDifference> add(int rank, const CallReport& report);

 private:
  struct Slot {
    std::uint64_t block = 0, value = 0;
    int rank = -1; ///< who said so; -1: nobody yet
  };
  std::vector<Slot> slots_; ///< kSlots of each scale, from the first report on
};

} // namespace rondo::bootstrap
