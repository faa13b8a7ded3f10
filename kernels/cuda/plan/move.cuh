// The data movement of a step: combines n inputs in one pass and stores the result to any number of
// outputs. Inputs and outputs are memory or slots.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/launch.h"
#include "kernels/cuda/element/formats.h"
#include "kernels/cuda/element/operators.h"
#include "kernels/cuda/element/scaling.h"
#include "kernels/cuda/plan/wait.cuh"
#include "kernels/cuda/reduce/body.h"

namespace rondo::kernels::cuda {

/// One input or output of the step in progress, shared by all threads of a block.
struct LiveOperand {
  /// local: start of the space in this tile; else: the slot, or the lent memory.
  std::byte* base = nullptr;
  std::byte* at = nullptr;  ///< address in the segment in progress (simple)
  std::uint64_t number = 0; ///< number of the message; 0: local
};

/// The operands of a step for Reduction: its ends, without outputs that need no write.
struct StepOperands {
  const LiveOperand* ends;
  const Step& step;
  std::uint32_t skipped; ///< outputs at the start that are left out
  std::uint32_t written; ///< number of outputs after these
  double scale;

  RONDO_HOST_DEVICE unsigned inputs() const { return step.inputs; }
  RONDO_HOST_DEVICE unsigned outputs() const { return written; }
  RONDO_HOST_DEVICE const std::byte* input(unsigned k) const { return ends[k].at; }
  RONDO_HOST_DEVICE std::byte* output(unsigned j) const {
    return ends[step.inputs + skipped + j].at;
  }
  RONDO_HOST_DEVICE bool scaled(unsigned k) const {
    return scale != 1.0 && static_cast<int>(k) == step.raw_input;
  }
  RONDO_HOST_DEVICE double factor() const { return scale; }
};

/// Moves the data of one step. All threads of the block call the same functions with the same
/// arguments.
template <class Block, DataType kType, ReduceOp::Kind kOp>
class Mover {
 public:
  /// `rings`: of this copy of the plan. `ends`: of the step.
  RONDO_HOST_DEVICE Mover(const Launch& launch, const Ring* rings, const Step& step,
                          LiveOperand* ends, Block& block)
      : launch_(launch),
        rings_(rings),
        step_(step),
        block_(block),
        ends_(ends),
        moves_(step.inputs == 1 && !(kScales && step.raw_input == 0 && factor() != 1.0)) {}

  /// simple: combines `count` elements, from the inputs' LiveOperand::at to the outputs'.
  RONDO_HOST_DEVICE void segment(std::uint64_t count) {
    // If source and destination are the same memory, it must not be written: another lane may be
    // reading it.
    if (step_.written_by_sender) return;
    const bool itself = moves_ && ends_[step_.inputs].at == ends_[0].at;
    const std::uint32_t outputs = step_.lends ? (local(step_.inputs) ? 1 : 0) : step_.outputs;
    const std::uint32_t skipped = itself ? 1 : 0;
    const StepOperands operands{ends_, step_, skipped, outputs - skipped, factor()};
    if (operands.outputs() == 0) return;
    if (isFloat(kType) && moves_) { // converting a NaN to a value and back could change it
      reduce<DataType::uint8, ReduceOp::Kind::bor>(operands, count * kElement);
    } else {
      reduce<kType, kOp>(operands, count);
    }
  }

  /// low_latency: sends the label of an output's message, or awaits and checks that of an input,
  /// with the calling thread only. False: the launch must end.
  RONDO_HOST_DEVICE bool label(std::uint32_t end, const Watch<Block>& watch) const {
    if (local(end)) return true;
    const std::uint64_t due = labelFor(launch_, step_);
    if (end >= step_.inputs) {
      // Packets with data leave only after the packets that they are computed from. An empty
      // message is only a label. Without this wait, the signals of a Barrier would leave before the
      // signals that they depend on have arrived.
      if (step_.bytes == 0)
        for (std::uint32_t i = 0; i < step_.inputs; ++i)
          if (Packets seen; !local(i) && !awaitPackets(i, labelOf(i), seen, watch)) return false;
      block_.storePackets(labelOf(end), Packets::of(due, flagOf(ends_[end].number)));
      return true;
    }
    Packets seen;
    if (!awaitPackets(end, labelOf(end), seen, watch)) return false;
    return seen.data() == due || watch.refuse(channelOf(end), seen.data() ^ due);
  }

  /// low_latency: moves this thread's lines of the message, from `line` on, each as soon as its
  /// packets arrive. Sets `line` to the thread's first line in the next message. False: the launch
  /// must end.
  RONDO_HOST_DEVICE bool lines(std::uint64_t& line, const Watch<Block>& watch) {
    const std::uint64_t lines = (step_.bytes + Packets::kDataBytes - 1) / Packets::kDataBytes;
    Cursor cursor(launch_.program.segments + step_.segments.first);
    for (; line < lines; line += block_.threads()) {
      cursor.seek(line * kPerLine, elements());
      if (!combineLine(line, cursor, watch)) return false;
    }
    line -= lines;
    sweep(lines);
    return true;
  }

 private:
  using F = Format<kType>;
  using Element = typename F::Element;
  static constexpr std::size_t kElement = sizeof(Element);
  static constexpr std::size_t kPerLine = Packets::kDataBytes / kElement;
  static constexpr bool kScales = kOp == ReduceOp::Kind::premul_sum;

  template <DataType kOf, ReduceOp::Kind kBy>
  RONDO_HOST_DEVICE void reduce(const StepOperands& operands, std::uint64_t count) const {
    const auto workers = block_.workers();
    Reduction<kOf, kBy, PlainAccess, decltype(block_.workers()), StepOperands>(operands, count,
                                                                               workers)
        .run();
  }

  /// The factor for elements of the call's input. If it is in device memory, it was written before
  /// the launch.
  RONDO_HOST_DEVICE double factor() const {
    if constexpr (kScales)
      if (launch_.factor_at)
        return static_cast<double>(F::load(loadElement<PlainAccess, Element>(launch_.factor_at)));
    return launch_.factor;
  }

  // Low latency -----------------------------------------------------------------------------------

  static constexpr int kWords = Packets::kDataBytes / sizeof(Word<F>);
  struct Values {
    typename F::Value of[kWords][kPerWord<F>];
  };
  struct Words {
    Word<F> of[kWords];
  };

  /// The segment that contains an element of the message. Moves forward only.
  struct Cursor {
    const Segment* segment;
    std::uint32_t index = 0;
    std::uint64_t first = 0; ///< first element of the segment, in elements of the message

    explicit RONDO_HOST_DEVICE Cursor(const Segment* begin) : segment(begin) {}
    RONDO_HOST_DEVICE std::uint64_t end() const { return first + segment->count; }
    /// Elements after the last one have no place.
    RONDO_HOST_DEVICE void seek(std::uint64_t element, std::uint64_t elements) {
      while (element < elements && element >= end()) {
        first = end();
        ++segment;
        ++index;
      }
    }
  };

  RONDO_HOST_DEVICE std::uint64_t elements() const { return step_.bytes / kElement; }
  RONDO_HOST_DEVICE std::uint32_t ends() const { return step_.inputs + step_.outputs; }
  RONDO_HOST_DEVICE bool local(std::uint32_t end) const { return ends_[end].number == 0; }
  RONDO_HOST_DEVICE std::uint32_t channelOf(std::uint32_t end) const {
    return static_cast<std::uint32_t>(launch_.program.places[step_.places + end].channel);
  }
  RONDO_HOST_DEVICE Packets* labelOf(std::uint32_t end) const {
    return reinterpret_cast<Packets*>(ends_[end].base);
  }
  RONDO_HOST_DEVICE Packets* packets(std::uint32_t end, std::uint64_t line) const {
    return labelOf(end) + 1 + line;
  }

  RONDO_HOST_DEVICE bool combineLine(std::uint64_t line, const Cursor& cursor,
                                     const Watch<Block>& watch) const {
    // Loads packets of several messages at once, so that their latencies overlap. The gain was not
    // measured.
    constexpr std::uint32_t kBatch = 4;
    Values values{};
    std::uint64_t data = 0;
    RONDO_NO_UNROLL
    for (std::uint32_t from = 0; from < step_.inputs; from += kBatch) {
      Packets seen[kBatch];
      RONDO_UNROLL
      for (std::uint32_t b = 0; b < kBatch; ++b)
        if (from + b < step_.inputs && !local(from + b))
          seen[b] = block_.loadPackets(packets(from + b, line));
      RONDO_UNROLL
      for (std::uint32_t b = 0; b < kBatch; ++b) {
        const std::uint32_t i = from + b;
        if (i >= step_.inputs) continue;
        if (local(i)) {
          data = gather(i, cursor, line);
        } else {
          if (!awaitPackets(i, packets(i, line), seen[b], watch)) return false;
          data = seen[b].data();
        }
        if (!moves_) combine(values, data, i);
      }
    }
    if (!moves_) data = pack(values);
    RONDO_NO_UNROLL
    for (std::uint32_t o = step_.inputs; o < ends(); ++o) {
      if (local(o)) scatter(o, cursor, line, data);
      else block_.storePackets(packets(o, line), Packets::of(data, flagOf(ends_[o].number)));
    }
    return true;
  }

  RONDO_HOST_DEVICE void combine(Values& values, std::uint64_t data, std::uint32_t input) const {
    const auto words = bitCast<Words>(data);
    RONDO_UNROLL
    for (int w = 0; w < kWords; ++w) {
      typename F::Value next[kPerWord<F>];
      unpack<F>(words.of[w], next);
      if constexpr (kScales)
        if (static_cast<int>(input) == step_.raw_input)
          if (const double by = factor(); by != 1.0) Scaling<kType>(by).scaleWord(next);
      RONDO_UNROLL
      for (int v = 0; v < kPerWord<F>; ++v)
        values.of[w][v] = input == 0 ? next[v] : Operator<kOp>()(values.of[w][v], next[v]);
    }
  }
  static RONDO_HOST_DEVICE std::uint64_t pack(const Values& values) {
    Words words;
    RONDO_UNROLL
    for (int w = 0; w < kWords; ++w) words.of[w] = cuda::pack<F>(values.of[w]);
    return bitCast<std::uint64_t>(words);
  }

  RONDO_HOST_DEVICE bool awaitPackets(std::uint32_t input, const Packets* from, Packets& seen,
                                      const Watch<Block>& watch) const {
    const std::uint32_t flag = flagOf(ends_[input].number);
    if (seen.carry(flag)) return true;
    return watch.until(
        [&] {
          seen = block_.loadPackets(from);
          return seen.carry(flag);
        },
        Report::Awaited::message, channelOf(input));
  }

  /// gather() loads, scatter() stores the 8 bytes of a line; by one access if they are contiguous
  /// and aligned.
  RONDO_HOST_DEVICE std::uint64_t gather(std::uint32_t end, Cursor cursor,
                                         std::uint64_t line) const {
    if (const std::byte* whole = wholeLine(end, cursor, line))
      return PlainAccess::load<std::uint64_t>(whole);
    std::uint64_t data = 0;
    RONDO_NO_UNROLL
    for (std::uint64_t k = 0; k < kPerLine && line * kPerLine + k < elements(); ++k) {
      cursor.seek(line * kPerLine + k, elements());
      const auto element =
          loadElement<PlainAccess, Element>(elementAt(end, cursor, line * kPerLine + k));
      data |= static_cast<std::uint64_t>(element) << (8 * kElement * k);
    }
    return data;
  }
  RONDO_HOST_DEVICE void scatter(std::uint32_t end, Cursor cursor, std::uint64_t line,
                                 std::uint64_t data) const {
    if (std::byte* whole = wholeLine(end, cursor, line)) return PlainAccess::store(whole, data);
    RONDO_NO_UNROLL
    for (std::uint64_t k = 0; k < kPerLine && line * kPerLine + k < elements(); ++k) {
      cursor.seek(line * kPerLine + k, elements());
      storeElement<PlainAccess, Element>(elementAt(end, cursor, line * kPerLine + k),
                                         static_cast<Element>(data >> (8 * kElement * k)));
    }
  }
  RONDO_HOST_DEVICE std::byte* wholeLine(std::uint32_t end, const Cursor& cursor,
                                         std::uint64_t line) const {
    if (line * kPerLine + kPerLine > cursor.end()) return nullptr;
    std::byte* place = elementAt(end, cursor, line * kPerLine);
    return misalignment(place) % Packets::kDataBytes == 0 ? place : nullptr;
  }
  RONDO_HOST_DEVICE std::byte* elementAt(std::uint32_t end, const Cursor& cursor,
                                         std::uint64_t element) const {
    const Place& place = launch_.program.places[step_.places + end];
    return ends_[end].base + launch_.program.offsets[place.offsets + cursor.index] +
           (element - cursor.first) * kElement;
  }

  /// For some messages, writes the rest of the slot too, so that no flag gets 2^31 messages old.
  RONDO_HOST_DEVICE void sweep(std::uint64_t lines) const {
    RONDO_NO_UNROLL
    for (std::uint32_t o = step_.inputs; o < ends(); ++o) {
      if (local(o)) continue;
      const std::uint64_t number = ends_[o].number;
      const Ring& ring = rings_[channelOf(o)];
      if ((number & kSweepMask) >= ring.depth) continue;
      const std::uint64_t end = ring.stride / sizeof(Packets) - 1;
      RONDO_NO_UNROLL
      for (std::uint64_t line = lines + block_.thread(); line < end; line += block_.threads())
        block_.storePackets(packets(o, line), Packets::of(0, flagOf(number)));
    }
  }

  const Launch& launch_;
  const Ring* const rings_;
  const Step& step_;
  Block& block_;
  LiveOperand* const ends_;
  const bool moves_; ///< one input, whose bits do not change
};

} // namespace rondo::kernels::cuda
