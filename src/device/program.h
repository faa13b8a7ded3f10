// A bound plan as the plan kernel reads it: tables of plain structures that refer to each other by
// index, in one block of bytes that may be copied to any memory.
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
  std::uint64_t packed = 0; ///< bytes from the start of the message
};

/// One place that a step reads or writes.
struct Place {
  plan::Space space = plan::Space::input;
  bool output = false;
  bool of_all = false;       ///< of all ranks' windows
  std::uint16_t member = 0;  ///< number of its step in the bundle
  std::uint32_t offsets = 0; ///< local: first of one byte offset per segment
  std::int32_t channel = plan::Operand::kLocal;
  /// Input: the number among the step's places of the output that lands where this message says, or
  /// -1. Output: 0 where it lands, else -1.
  std::int16_t lands = -1;

  RONDO_HOST_DEVICE bool local() const { return channel == plan::Operand::kLocal; }
};

/// One fused operation, see plan::Step.
struct Step {
  std::uint64_t bytes = 0; ///< of the message
  std::uint64_t tiles = 0; ///< it takes part in so many, from the first on
  Range segments;
  Range after;
  std::uint32_t places = 0; ///< first of its places: the inputs, in order, then the outputs
  std::uint32_t inputs = 0, outputs = 0;
  std::uint32_t bundle = 1;    ///< steps from here on that are done as one, see plan::Bundles; 0:
                               ///< this one is done with one before it
  std::uint32_t ends = 0;      ///< inputs and outputs of all of them
  std::int32_t raw_input = -1; ///< of the inputs, the one that reads the call's input, or -1
  /// What it would send stays where it is, in its local output or only input, and the receivers
  /// read it there. It has one segment.
  bool lends = false;
  bool sums = false;       ///< its input is the sum of all ranks' windows
  bool to_all = false;     ///< its output goes to all of them
  bool is_barrier = false; ///< all ranks meet; it does nothing else
  /// What it receives lies already where it would put it.
  bool written_by_sender = false;
  /// Not -1: its message says where another one may land, this offset into the output.
  std::int32_t announces = -1;
};

/// Steps first..first+count; those of full tiles stand Program::last_steps before those of last
/// tiles.
using Lane = Range;

/// The numbers of a device program.
struct ProgramHeader {
  std::uint32_t lanes = 0;
  std::uint32_t channels = 0;
  /// The plan runs so often at the same time, each copy in lanes, channels and scratch of its own:
  /// copy c does tiles c, c + copies, ...
  std::uint32_t copies = 1;
  std::uint64_t tiles = 1;
  std::uint64_t tile_bytes = 0;    ///< of a full tile, in one block
  std::uint64_t output_count = 0;  ///< elements of the output's first block
  std::uint64_t scratch_bytes = 0; ///< of a copy
  std::uint64_t ticks = 0;         ///< a lane's clock advances by so much in a launch
  std::uint32_t last_steps = 0;    ///< see Lane
  std::uint32_t max_places = 0;    ///< of the bundle that has most
  DataType type = DataType::float32;
  ReduceOp::Kind op = ReduceOp::Kind::sum;
  Protocol protocol = Protocol::simple;
  bool lanes_in_step = false;  ///< none may enter a tile before all left the last
  bool divides = false;        ///< integer average: the output is divided at the end
  bool divides_signed = false; ///< as signed integers
  bool watched = false;        ///< lanes wait for lanes
  bool lends = false;          ///< some step does
  bool is_barrier = false;     ///< some step does

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

/// A device program on the host: collected table by table, then laid out in one block.
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
  /// For an image that stands at `image`, in whatever memory.
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
