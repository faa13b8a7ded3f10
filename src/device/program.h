// A bound plan in the form that the plan kernel reads: tables of plain structures that refer to
// each other by index, in one block of bytes that can be copied to any memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "device/ring.h"
#include "plan/plan.h"
#include "rondo/types.h"

namespace rondo::device {

/// A part of a table.
struct Range {
  std::uint32_t first = 0, count = 0;
};

/// Contiguous elements of a step.
struct Segment {
  std::uint64_t count = 0;  ///< elements of the program's type
  std::uint64_t packed = 0; ///< offset in the message, in bytes
};

/// One place that a step reads or writes.
struct Place {
  plan::Space space = plan::Space::input;
  bool output = false;
  bool of_all = false;      ///< in all ranks' windows
  std::uint16_t member = 0; ///< index of its step in the bundle
  /// If local: index of the first of its byte offsets, one for each segment.
  std::uint32_t offsets = 0;
  std::int32_t channel = plan::Operand::kLocal;
  /// Input: index, among the step's places, of the output that is put at the address in this
  /// message, or -1. Output: 0 if it is put, else -1.
  std::int16_t put = -1;

  RONDO_HOST_DEVICE bool local() const { return channel == plan::Operand::kLocal; }
};

/// One fused operation, see plan::Step.
struct Step {
  std::uint64_t bytes = 0; ///< size of the message
  std::uint64_t tiles = 0; ///< the step takes part in tiles 0 to tiles - 1
  Range segments;
  Range after;
  std::uint32_t places = 0; ///< index of its first place: the inputs, in order, then the outputs
  std::uint32_t inputs = 0, outputs = 0;
  /// Number of steps, from this one on, that are done as one, see plan::Bundles; 0: this step
  /// belongs to the bundle of an earlier one.
  std::uint32_t bundle = 1;
  std::uint32_t ends = 0;      ///< inputs and outputs of the whole bundle
  std::int32_t raw_input = -1; ///< index of the input that reads the call's input buffer, or -1
  /// The step's message stays in its local output or only input, and the receivers read it there.
  /// Such a step has one segment.
  bool lends = false;
  bool sums = false;       ///< its input is the sum over all ranks' windows
  bool to_all = false;     ///< its output goes to all ranks' windows
  bool is_barrier = false; ///< all ranks wait for each other; the step does nothing else
  /// The sender has already written the step's message to its destination.
  bool written_by_sender = false;
  /// If not -1: the step's message tells the receiver where it may write its answer, as this offset
  /// in the output.
  std::int32_t announces = -1;
};

/// Steps first to first + count - 1. The steps of full tiles come Program::last_steps entries
/// before those of last tiles.
using Lane = Range;

/// Sizes and properties of a device program.
struct ProgramHeader {
  std::uint32_t lanes = 0;
  std::uint32_t channels = 0;
  /// Number of copies of the plan that run at the same time. Each has lanes, channels and scratch
  /// of its own: copy c does tiles c, c + copies, ...
  std::uint32_t copies = 1;
  std::uint64_t tiles = 1;
  std::uint64_t tile_bytes = 0;    ///< bytes of a full tile in one block
  std::uint64_t output_count = 0;  ///< elements of the output's first block
  std::uint64_t scratch_bytes = 0; ///< for each copy
  std::uint64_t ticks = 0;         ///< a lane's clock advances by this in a launch
  std::uint32_t last_steps = 0;    ///< see Lane
  std::uint32_t max_places = 0;    ///< of the bundle that has most
  DataType type = DataType::float32;
  ReduceOp::Kind op = ReduceOp::Kind::sum;
  Protocol protocol = Protocol::simple;
  /// A lane enters a tile only after all lanes have left the one before.
  bool lanes_in_step = false;
  bool divides = false;        ///< integer average: the output is divided at the end
  bool divides_signed = false; ///< as signed integers
  bool watched = false;        ///< some lanes wait for other lanes
  bool lends = false;          ///< at least one step lends
  bool is_barrier = false;     ///< at least one step is a barrier

  /// Thread blocks of a launch: block b runs lane b % lanes of copy b / lanes.
  RONDO_HOST_DEVICE std::uint32_t blocks() const { return lanes * copies; }
};

/// A device program with the addresses of its tables.
struct Program : ProgramHeader {
  const Lane* lane = nullptr;
  const Step* steps = nullptr;
  const Place* places = nullptr;
  const Segment* segments = nullptr;
  const std::uint64_t* offsets = nullptr;
  const plan::Dependency* after = nullptr;
};

/// A device program on the host: collected in tables, then written to one block of bytes.
struct ProgramTables {
  ProgramHeader header;
  std::vector<Lane> lanes;
  std::vector<Step> steps;
  std::vector<Place> places;
  std::vector<Segment> segments;
  std::vector<std::uint64_t> offsets;
  std::vector<plan::Dependency> after;

  std::size_t bytes() const {
    std::size_t size = 0;
    forEach(*this, [&size](const auto& table) { size += sizeOf(table); });
    return size;
  }
  /// Writes bytes() to `image`, which is aligned to 16.
  void write(std::byte* image) const {
    forEach(*this, [&image](const auto& table) {
      if (!table.empty()) std::memcpy(image, table.data(), table.size() * sizeof(table[0]));
      image += sizeOf(table);
    });
  }
  /// The program with the addresses that the tables have if the image is at `image`, in any memory.
  Program at(const std::byte* image) const {
    Program program{header};
    const auto next = [&image]<class T>(const std::vector<T>& table) {
      const auto* start = reinterpret_cast<const T*>(image);
      image += sizeOf(table);
      return start;
    };
    program.lane = next(lanes);
    program.steps = next(steps);
    program.places = next(places);
    program.segments = next(segments);
    program.offsets = next(offsets);
    program.after = next(after);
    return program;
  }

 private:
  template <class T>
  static std::size_t sizeOf(const std::vector<T>& table) {
    constexpr std::size_t kAlign = 16;
    return (table.size() * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  }
  template <class Tables, class Visit>
  static void forEach(Tables& tables, Visit visit) {
    visit(tables.lanes);
    visit(tables.steps);
    visit(tables.places);
    visit(tables.segments);
    visit(tables.offsets);
    visit(tables.after);
  }
};

} // namespace rondo::device
