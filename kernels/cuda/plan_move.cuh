// The arithmetic of a step: n inputs combined in one pass, to any number of outputs, with memory
// and slots as inputs and outputs alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/formats.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/plan_wait.cuh"
#include "kernels/cuda/scaling.h"

namespace rondo::kernels::cuda {

/// One input or output of the step in progress, for all threads of a block to see.
struct End {
  std::byte* base = nullptr; ///< local: of the space, at this tile. Else: the slot
  std::byte* at = nullptr;   ///< of the segment in progress (simple)
  std::uint64_t number = 0;  ///< of the message; 0: local
};

/// `kBytes` of elements in registers.
template <class F, std::size_t kBytes>
struct Packed {
  static constexpr std::size_t kSize = kBytes;
  static constexpr int kWords = kBytes / sizeof(Word<F>);
  struct alignas(kBytes) Raw {
    Word<F> words[kWords];
  };
  using Values = typename F::Value[kWords][kPerWord<F>];

  static RONDO_HOST_DEVICE void unpack(const Raw& raw, Values& values) {
    for (int w = 0; w < kWords; ++w) cuda::unpack<F>(raw.words[w], values[w]);
  }
  static RONDO_HOST_DEVICE Raw pack(const Values& values) {
    Raw raw;
    for (int w = 0; w < kWords; ++w) raw.words[w] = cuda::pack<F>(values[w]);
    return raw;
  }
};

/// One element.
template <class F>
struct Single {
  static constexpr std::size_t kSize = sizeof(typename F::Element);
  using Raw = typename F::Element;
  using Values = typename F::Value[1][1];

  static RONDO_HOST_DEVICE void unpack(const Raw& raw, Values& values) {
    values[0][0] = F::load(raw);
  }
  static RONDO_HOST_DEVICE Raw pack(const Values& values) { return F::store(values[0][0]); }
};

/// The moves of one step. All threads of the block call the same functions with the same arguments.
template <class Block, DataType kType, ReduceOp::Kind kOp>
class Mover {
  using F = Format<kType>;
  using Element = typename F::Element;
  static constexpr std::size_t kElement = sizeof(Element);

 public:
  RONDO_HOST_DEVICE Mover(const Launch& launch, const Step& step, Block& block)
      : launch_(launch),
        step_(step),
        block_(block),
        ends_(block.ends()),
        scaling_(launch.factor),
        scaled_(launch.factor != 1.0 && step.raw_input >= 0) {}

  /// simple: `count` elements from End::at to End::at. Whole vectors where all addresses lie alike
  /// within 16 bytes, element by element elsewhere. Addresses are multiples of the element.
  RONDO_HOST_DEVICE void segment(std::uint64_t count) {
    using Wide = Packed<F, 16>;
    // In flight per thread and input: 64 bytes, but no more than 32 values. Not measured.
    constexpr int kUnroll = kElement == 1 ? 2 : 4;
    if (onlyOntoItself()) return;
    std::uint64_t head = count;
    if (alike()) {
      const std::uint64_t to_border = -address(0) % Wide::kSize / kElement;
      head = to_border < count ? to_border : count;
    }
    const std::uint64_t vectors = (count - head) * kElement / Wide::kSize;
    const std::uint64_t body = head * kElement;
    const std::uint64_t tail = body + vectors * Wide::kSize;
    pass<Single<F>, 1>(0, head);
    pass<Wide, kUnroll>(body, vectors);
    pass<Single<F>, 1>(tail, count - tail / kElement);
  }

  /// low_latency: the whole message, each thread as its packets come. False: the launch ends.
  RONDO_HOST_DEVICE bool lines(const Watch<Block>& watch) {
    // In a small message the last thread has nothing else to do.
    if (block_.thread() + 1 == block_.threads() && !labels(watch)) return false;
    const std::uint64_t lines = (step_.bytes + Packets::kDataBytes - 1) / Packets::kDataBytes;
    Cursor cursor(launch_.program.segments + step_.segments.first);
    for (std::uint64_t line = block_.thread(); line < lines; line += block_.threads()) {
      cursor.seek(line * (Packets::kDataBytes / kElement), elements());
      if (!combineLine(line, cursor, watch)) return false;
    }
    sweep(lines);
    return true;
  }

 private:
  /// Where an element of the message lies among the segments. Moves forward only.
  struct Cursor {
    const Segment* segment;
    std::uint32_t index = 0;
    std::uint64_t first = 0; ///< of the segment, in elements of the message

    explicit RONDO_HOST_DEVICE Cursor(const Segment* begin) : segment(begin) {}
    RONDO_HOST_DEVICE std::uint64_t end() const { return first + segment->count; }
    /// Elements past the last have no place.
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
  RONDO_HOST_DEVICE std::uint64_t address(std::uint32_t end) const {
    return reinterpret_cast<std::uintptr_t>(ends_[end].at);
  }
  RONDO_HOST_DEVICE bool moves() const { return step_.inputs == 1 && !scaled_; }
  RONDO_HOST_DEVICE bool scales(std::uint32_t input) const {
    return scaled_ && static_cast<std::uint32_t>(step_.raw_input) == input;
  }

  RONDO_HOST_DEVICE bool onlyOntoItself() const {
    return moves() && step_.outputs == 1 && ends_[0].at == ends_[1].at;
  }
  RONDO_HOST_DEVICE bool alike() const {
    std::uint64_t differing = 0;
    for (std::uint32_t i = 1; i < ends(); ++i) differing |= address(0) ^ address(i);
    return differing % 16 == 0;
  }

  /// `units` from byte `from` on, `kUnroll` of them at a time per thread.
  template <class Unit, int kUnroll>
  RONDO_HOST_DEVICE void pass(std::uint64_t from, std::uint64_t units) {
    const std::uint64_t apart = block_.threads();
    std::uint64_t unit = block_.thread();
    if constexpr (kUnroll > 1)
      for (; unit + (kUnroll - 1) * apart < units; unit += kUnroll * apart)
        group<Unit, kUnroll>(from + unit * Unit::kSize, apart * Unit::kSize);
    for (; unit < units; unit += apart) group<Unit, 1>(from + unit * Unit::kSize, 0);
  }

  /// All inputs of some units are read before any output is written: an output may be an input.
  template <class Unit, int kUnroll>
  RONDO_HOST_DEVICE void group(std::uint64_t offset, std::uint64_t apart) {
    typename Unit::Raw raw[kUnroll];
    load<Unit>(0, offset, apart, raw);
    if (!moves()) {
      typename Unit::Values values[kUnroll];
      for (int u = 0; u < kUnroll; ++u) begin<Unit>(values[u], raw[u], scales(0));
      for (std::uint32_t i = 1; i < step_.inputs; ++i) {
        load<Unit>(i, offset, apart, raw);
        for (int u = 0; u < kUnroll; ++u) add<Unit>(values[u], raw[u], scales(i));
      }
      for (int u = 0; u < kUnroll; ++u) raw[u] = Unit::pack(values[u]);
    }
    for (std::uint32_t o = step_.inputs; o < ends(); ++o) {
      if (moves() && ends_[o].at == ends_[0].at) continue; // another lane may be reading there
      for (int u = 0; u < kUnroll; ++u)
        block_.store(ends_[o].at + offset + static_cast<std::uint64_t>(u) * apart, raw[u]);
    }
  }
  template <class Unit, int kUnroll>
  RONDO_HOST_DEVICE void load(std::uint32_t input, std::uint64_t offset, std::uint64_t apart,
                              typename Unit::Raw (&raw)[kUnroll]) {
    const std::byte* from = ends_[input].at + offset;
    for (int u = 0; u < kUnroll; ++u)
      raw[u] =
          block_.template load<typename Unit::Raw>(from + static_cast<std::uint64_t>(u) * apart);
  }

  template <class Unit>
  RONDO_HOST_DEVICE void begin(typename Unit::Values& values, const typename Unit::Raw& raw,
                               bool scale) const {
    Unit::unpack(raw, values);
    if (!scale) return;
    for (auto& row : values) {
      for (auto& value : row) value = scaling_(value);
    }
  }
  template <class Unit>
  RONDO_HOST_DEVICE void add(typename Unit::Values& values, const typename Unit::Raw& raw,
                             bool scale) const {
    constexpr int kRows = sizeof(values) / sizeof(values[0]);
    constexpr int kColumns = sizeof(values[0]) / sizeof(values[0][0]);
    typename Unit::Values operand;
    begin<Unit>(operand, raw, scale);
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kColumns; ++c)
        values[r][c] = Operator<kOp>()(values[r][c], operand[r][c]);
    }
  }

  // Low latency -----------------------------------------------------------------------------------

  RONDO_HOST_DEVICE Packets* labelOf(std::uint32_t end) const {
    return reinterpret_cast<Packets*>(ends_[end].base);
  }
  RONDO_HOST_DEVICE Packets* packets(std::uint32_t end, std::uint64_t line) const {
    return labelOf(end) + 1 + line;
  }

  RONDO_HOST_DEVICE bool labels(const Watch<Block>& watch) {
    const std::uint64_t label = labelFor(launch_, step_);
    for (std::uint32_t o = step_.inputs; o < ends(); ++o)
      if (ends_[o].number != 0)
        block_.storePackets(labelOf(o), Packets::of(label, flagOf(ends_[o].number)));
    for (std::uint32_t i = 0; i < step_.inputs; ++i) {
      if (ends_[i].number == 0) continue;
      Packets seen;
      if (!awaitPackets(i, labelOf(i), seen, watch)) return false;
      if (seen.data() != label) return watch.refuse(channelOf(i), seen.data() ^ label);
    }
    return true;
  }
  RONDO_HOST_DEVICE std::uint32_t channelOf(std::uint32_t end) const {
    return static_cast<std::uint32_t>(launch_.program.places[step_.places + end].channel);
  }

  RONDO_HOST_DEVICE bool combineLine(std::uint64_t line, const Cursor& cursor,
                                     const Watch<Block>& watch) {
    using Unit = Packed<F, Packets::kDataBytes>;
    // Looks at several messages at once: their latencies overlap.
    constexpr std::uint32_t kBatch = 4;
    typename Unit::Values values{};
    typename Unit::Raw raw{};
    for (std::uint32_t from = 0; from < step_.inputs; from += kBatch) {
      Packets seen[kBatch];
      for (std::uint32_t b = 0; b < kBatch; ++b) {
        if (from + b < step_.inputs && ends_[from + b].number != 0)
          seen[b] = block_.loadPackets(packets(from + b, line));
      }
      for (std::uint32_t b = 0; b < kBatch; ++b) {
        const std::uint32_t i = from + b;
        if (i >= step_.inputs) break;
        if (ends_[i].number == 0) {
          raw = bitCast<typename Unit::Raw>(gather(i, cursor, line));
        } else {
          if (!awaitPackets(i, packets(i, line), seen[b], watch)) return false;
          raw = bitCast<typename Unit::Raw>(seen[b].data());
        }
        if (i == 0 && !moves()) begin<Unit>(values, raw, scales(0));
        if (i > 0) add<Unit>(values, raw, scales(i));
      }
    }
    if (!moves()) raw = Unit::pack(values);
    const auto data = bitCast<std::uint64_t>(raw);
    for (std::uint32_t o = step_.inputs; o < ends(); ++o) {
      if (ends_[o].number == 0) scatter(o, cursor, line, data);
      else block_.storePackets(packets(o, line), Packets::of(data, flagOf(ends_[o].number)));
    }
    return true;
  }

  RONDO_HOST_DEVICE bool awaitPackets(std::uint32_t input, const Packets* from, Packets& seen,
                                      const Watch<Block>& watch) {
    const std::uint32_t flag = flagOf(ends_[input].number);
    if (seen.carry(flag)) return true;
    return watch.until(
        [&] {
          seen = block_.loadPackets(from);
          return seen.carry(flag);
        },
        Report::Awaited::message, channelOf(input));
  }

  /// The 8 bytes of a line, from or to memory: in one piece where they lie so.
  RONDO_HOST_DEVICE std::byte* wholeLine(std::uint32_t end, const Cursor& cursor,
                                         std::uint64_t line) const {
    const std::uint64_t first = line * (Packets::kDataBytes / kElement);
    if (first + Packets::kDataBytes / kElement > cursor.end() || first >= elements())
      return nullptr;
    std::byte* place = elementAt(end, cursor, first);
    return reinterpret_cast<std::uintptr_t>(place) % Packets::kDataBytes == 0 ? place : nullptr;
  }
  RONDO_HOST_DEVICE std::byte* elementAt(std::uint32_t end, const Cursor& cursor,
                                         std::uint64_t element) const {
    const Place& place = launch_.program.places[step_.places + end];
    return ends_[end].base + launch_.program.offsets[place.offsets + cursor.index] +
           (element - cursor.first) * kElement;
  }
  RONDO_HOST_DEVICE std::uint64_t gather(std::uint32_t end, Cursor cursor, std::uint64_t line) {
    if (const std::byte* whole = wholeLine(end, cursor, line))
      return block_.template load<std::uint64_t>(whole);
    std::uint64_t data = 0;
    const std::uint64_t first = line * (Packets::kDataBytes / kElement);
    for (std::uint64_t k = 0; k < Packets::kDataBytes / kElement && first + k < elements(); ++k) {
      cursor.seek(first + k, elements());
      const auto element = block_.template load<Element>(elementAt(end, cursor, first + k));
      data |= static_cast<std::uint64_t>(element) << (8 * kElement * k);
    }
    return data;
  }
  RONDO_HOST_DEVICE void scatter(std::uint32_t end, Cursor cursor, std::uint64_t line,
                                 std::uint64_t data) {
    if (moves() && ends_[0].number == 0 &&
        elementAt(end, cursor, cursor.first) == elementAt(0, cursor, cursor.first))
      return; // onto itself
    if (std::byte* whole = wholeLine(end, cursor, line)) return block_.store(whole, data);
    const std::uint64_t first = line * (Packets::kDataBytes / kElement);
    for (std::uint64_t k = 0; k < Packets::kDataBytes / kElement && first + k < elements(); ++k) {
      cursor.seek(first + k, elements());
      block_.store(elementAt(end, cursor, first + k),
                   static_cast<Element>(data >> (8 * kElement * k)));
    }
  }

  /// Now and then the rest of a slot is written too, so that no old flag outlives 2^31 messages.
  RONDO_HOST_DEVICE void sweep(std::uint64_t lines) {
    for (std::uint32_t o = step_.inputs; o < ends(); ++o) {
      const std::uint64_t number = ends_[o].number;
      if (number == 0) continue;
      const Ring& ring = launch_.rings[channelOf(o)];
      if ((number & kSweepMask) >= ring.depth) continue;
      const std::uint64_t end = ring.stride / sizeof(Packets) - 1;
      for (std::uint64_t line = lines + block_.thread(); line < end; line += block_.threads())
        block_.storePackets(packets(o, line), Packets::of(0, flagOf(number)));
    }
  }

  const Launch& launch_;
  const Step& step_;
  Block& block_;
  End* const ends_;
  const Scaling<kType> scaling_;
  const bool scaled_;
};

} // namespace rondo::kernels::cuda
