// The plan kernel: one thread block runs one lane of a device program. The same source is compiled
// for the GPU and for the tests on the host. The Block is what differs:
//
//   thread(), threads()               index in the block, and its size
//   all(bool)                         a barrier of the block; whether all threads passed true
//   ends()                            memory that the block shares: ProgramHeader::max_places Ends
//   workers()                         the block's threads, as Reduction divides work among them
//   acquire<Scope>(word), release<Scope>(word, value)
//   loadPackets(), storePackets()     relaxed, system scope; each packet by a single access
//   claim(word)                       changes 0 to 1; whether this thread did it. Device scope
//   add(word, value)                  returns the previous value. Relaxed, device scope
//   ending()                          the block waits for no other rank any more
//   nanoseconds(), pause(looks)       a monotonic clock; what to do between two polls
//   kLooks                            polls of a flag between two polls of remote words
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/plan/move.cuh"
#include "kernels/cuda/plan/switch.cuh"

namespace rondo::kernels::cuda {

/// One lane of one copy of the plan, in one launch. Every thread of the block makes an object and
/// calls run().
///
/// A step, or the bundle that is done together with it, has two block barriers: one after all that
/// it waits for has arrived, one after all data has been moved. Everything that a thread did before
/// a barrier is visible to the block after it. Together with the acquire of a flag before the first
/// barrier, and the release of a flag after the second, it is also visible to the other end.
///
/// `kSwitch`: true for programs that have barriers between ranks, which use no packets.
template <class Block, DataType kType, ReduceOp::Kind kOp, bool kSwitch = false>
class PlanKernel {
 public:
  /// `index`: see ProgramHeader::blocks().
  RONDO_HOST_DEVICE PlanKernel(const Launch& launch, std::uint32_t index, Block& block)
      : launch_(launch),
        program_(launch.program),
        index_(index),
        copy_(index / launch.program.lanes),
        block_(block),
        ends_(block.ends()),
        watch_(launch, block, index) {}

  RONDO_HOST_DEVICE void run() {
    if (program_.watched) base_ = launch_.clocks[index_].ticks;
    if (!block_.all(begin())) return;
    const Lane lane = program_.lane[index_ % program_.lanes];
    std::uint64_t turn = 0;
    for (std::uint64_t tile = copy_; tile < program_.tiles; tile += program_.copies, ++turn) {
      watch_.at(tile, 0);
      if (program_.lanes_in_step && turn > 0 && !enter(turn)) return;
      for (std::uint32_t s = 0; s < lane.count;) {
        watch_.at(tile, s);
        const Step* step = stepAt(lane.first + s, tile);
        if (!perform(step, tile, turn)) return;
        s += step->bundle;
        tick(turn * lane.count + s);
      }
    }
    if (program_.lends && !awaitReturns(lane)) return;
    block_.ending();
    tick(program_.ticks - 1);
    if (kDivides && program_.divides && launch_.divisor > 1 && launch_.output && !divideOutput())
      return;
    tick(program_.ticks);
    leave();
  }

 private:
  /// Detects launches of the communicator that run at the same time. They would use the same
  /// positions and slots of the rings. The stream orders most launches. It cannot order a replay on
  /// one stream with a call on another, which must not go unnoticed. So each block checks whether
  /// blocks of a launch with another number run, and whether its own lane is in use. The words
  /// carry no other information, so relaxed order is enough. A launch that fails does not reset
  /// them: all later launches see `halted`. The additions do not depend on each other or on
  /// mayBegin(), so all three take the time of one access.
  RONDO_HOST_DEVICE bool begin() {
    std::uint64_t before = 0;
    std::uint32_t busy = 0;
    if (block_.thread() == 0) {
      before = block_.add(&launch_.halt->running, share());
      busy = block_.add(&launch_.clocks[index_].busy, 1u);
    }
    if (!watch_.mayBegin()) return false;
    bool alone = true;
    if (block_.thread() == 0) { // the others may not read launch_.number yet, see runBatch()
      const std::uint64_t blocks = before & ((std::uint64_t{1} << device::kBlockBits) - 1);
      alone = busy == 0 && before >> device::kBlockBits == blocks * launch_.number;
    }
    if (!alone) watch_.overlaps();
    return alone;
  }
  RONDO_HOST_DEVICE void leave() {
    block_.all(true); // all threads have called tell()
    if (block_.thread() != 0) return;
    block_.add(&launch_.clocks[index_].busy, ~0u);
    block_.add(&launch_.halt->running, ~share() + 1);
  }
  RONDO_HOST_DEVICE std::uint64_t share() const {
    return (static_cast<std::uint64_t>(launch_.number) << device::kBlockBits) + 1;
  }

  /// The step as it is in this tile, also if it has no part in it: see perform().
  RONDO_HOST_DEVICE const Step* stepAt(std::uint32_t index, std::uint64_t tile) const {
    const Step& last = program_.steps[program_.last_steps + index];
    return tile + 1 < last.tiles ? &program_.steps[index] : &last;
  }

  /// Advances this lane's clock, for which other lanes wait. Call it only after a block barrier
  /// that follows the work it announces.
  RONDO_HOST_DEVICE void tick(std::uint64_t ticks) {
    if (program_.watched && block_.thread() == 0)
      block_.template release<Scope::device>(&launch_.clocks[index_].ticks, base_ + ticks);
  }
  RONDO_HOST_DEVICE bool awaitBlock(std::uint32_t index, std::uint64_t ticks) const {
    const std::uint64_t* clock = &launch_.clocks[index].ticks;
    return watch_.until(
        [&] { return block_.template acquire<Scope::device>(clock) >= base_ + ticks; },
        Report::Awaited::lane, index);
  }
  /// Waits until blocks [first, stop) have reached `ticks(block)`.
  template <class Ticks>
  RONDO_HOST_DEVICE bool meet(std::uint32_t first, std::uint32_t stop, const Ticks& ticks) {
    bool there = true;
    for (std::uint32_t other = first + block_.thread(); other < stop; other += block_.threads())
      if (other != index_) there = there && awaitBlock(other, ticks(other));
    return block_.all(there);
  }
  RONDO_HOST_DEVICE std::uint32_t firstLane() const { return copy_ * program_.lanes; }
  /// Waits until all lanes of the copy have left the previous tile.
  RONDO_HOST_DEVICE bool enter(std::uint64_t turn) {
    return meet(firstLane(), firstLane() + program_.lanes, [&](std::uint32_t other) {
      return turn * program_.lane[other - firstLane()].count;
    });
  }

  /// Performs the bundle that begins with the step. A step that has no part in the tile only waits
  /// for other lanes, because later steps of its lane rely on this wait. `turn`: number of tiles
  /// that the copy has done.
  RONDO_HOST_DEVICE bool perform(const Step* first, std::uint64_t tile, std::uint64_t turn) {
    if constexpr (kSwitch)
      if (first->is_barrier) return meet(*first);
    const bool moves = tile < first->tiles;
    bool good = true;
    for (std::uint32_t i = block_.thread(); i < first->after.count; i += block_.threads()) {
      const plan::Dependency& before = program_.after[first->after.first + i];
      const std::uint64_t steps = program_.lane[before.lane].count;
      good = good && awaitBlock(firstLane() + before.lane, turn * steps + before.step + 1);
    }
    for (std::uint32_t i = block_.thread(); moves && i < first->ends; i += block_.threads())
      good = good && prepare(first, i, tile);
    if (!block_.all(good)) return false;
    if (!moves) return true;

    if constexpr (!kSwitch)
      if (program_.protocol == Protocol::low_latency) good = movePackets(first);
    if (kSwitch || program_.protocol == Protocol::simple)
      for (std::uint32_t m = 0; m < first->bundle; ++m) moveSegments(first, first[m]);
    for (std::uint32_t i = block_.thread(); i < first->ends; i += block_.threads())
      advance(first, i, tile);
    if (!block_.all(good)) return false;

    for (std::uint32_t i = block_.thread(); i < first->ends; i += block_.threads()) tell(first, i);
    return true;
  }

  /// The barrier between ranks: announces to all ranks that this rank has arrived, and waits until
  /// all have. After it, everything that the ranks did before is visible. Like a message, each
  /// arrival has a label that identifies the call.
  RONDO_HOST_DEVICE bool meet(const Step& step) {
    const device::Window& window = launch_.window;
    const std::uint64_t number = window.meetings[copy_] + 1;
    const std::uint64_t due = labelFor(launch_, step);
    block_.fenceAliases();
    // All threads have finished the work before the barrier, and have read the number.
    block_.all(true);
    if (block_.thread() == 0) {
      window.meetings[copy_] = number;
      device::Arrival* const own = window.arrivals(true, copy_) + window.rank;
      block_.storeToAll(&own->calls[number & 1], due);
      block_.releaseToAll(&own->number, number);
    }
    bool good = true;
    for (std::uint32_t rank = block_.thread(); rank < window.ranks; rank += block_.threads())
      good = good && awaitArrival(window.arrivals(false, copy_)[rank], rank, number, due);
    good = block_.all(good);
    block_.fenceAliases();
    return good;
  }
  RONDO_HOST_DEVICE bool awaitArrival(const device::Arrival& arrival, std::uint32_t rank,
                                      std::uint64_t number, std::uint64_t due) const {
    if (!watch_.until(
            [&] { return block_.template acquire<Scope::system>(&arrival.number) >= number; },
            Report::Awaited::meeting, rank))
      return false;
    block_.fenceAliases();
    const std::uint64_t call = block_.template acquire<Scope::system>(&arrival.calls[number & 1]);
    return call == due || watch_.refuse(rank, call ^ due, Report::Awaited::meeting);
  }

  /// An end of the bundle that begins with the step.
  RONDO_HOST_DEVICE const Place& place(const Step* first, std::uint32_t i) const {
    return program_.places[first->places + i];
  }
  /// The ends of one step in the bundle.
  RONDO_HOST_DEVICE LiveOperand* endsOf(const Step* first, const Step& step) const {
    return ends_ + (step.places - first->places);
  }
  RONDO_HOST_DEVICE Mover<Block, kType, kOp> moverOf(const Step* first, const Step& step) const {
    return {launch_, launch_.rings + copy_ * program_.channels, step, endsOf(first, step), block_};
  }

  RONDO_HOST_DEVICE const Ring& ringOf(const Place& place) const {
    return launch_.rings[copy_ * program_.channels + static_cast<std::uint32_t>(place.channel)];
  }

  /// Finds an input or output, and waits until it may be read or written. The thread that calls
  /// this later also notifies the other end.
  RONDO_HOST_DEVICE bool prepare(const Step* first, std::uint32_t i, std::uint64_t tile) {
    const Place& where = place(first, i);
    LiveOperand& end = ends_[i];
    if (where.local()) {
      end.number = 0;
      end.base = spaceAt(where, tile);
      end.at = end.base + program_.offsets[where.offsets];
      return true;
    }
    const Ring& ring = ringOf(where);
    end.number = ring.position->number + 1;
    std::byte* const slot = ring.slots + ring.position->slot * ring.stride;
    const auto whom = static_cast<std::uint32_t>(where.channel);
    if (!where.output || where.put < 0) end.base = end.at = slot;
    if (where.output) {
      return watch_.until(
          [&] {
            return block_.template acquire<Scope::system>(ring.consumed) + ring.depth >= end.number;
          },
          Report::Awaited::room, whom);
    }
    if (program_.protocol == Protocol::low_latency) return true; // each packet has its own flag
    if (!watch_.until(
            [&] { return block_.template acquire<Scope::system>(ring.published) >= end.number; },
            Report::Awaited::message, whom))
      return false;
    const Label label = ring.labels[ring.position->slot];
    // lent memory is only read
    if (label.lent) end.base = end.at = const_cast<std::byte*>(label.lent);
    if (where.put >= 0) endsOf(first, first[where.member])[where.put].at = label.put_to;
    const std::uint64_t due = labelFor(launch_, first[where.member]);
    return label.call == due || watch_.refuse(whom, label.call ^ due);
  }

  RONDO_HOST_DEVICE std::byte* spaceAt(const Place& where, std::uint64_t tile) const {
    if constexpr (kSwitch)
      if (where.space == plan::Space::window) return launch_.window.room(where.of_all, copy_);
    return spaceAt(where.space, tile);
  }
  RONDO_HOST_DEVICE std::byte* spaceAt(plan::Space space, std::uint64_t tile) const {
    switch (space) {
      case plan::Space::input: // the input is only read
        return const_cast<std::byte*>(launch_.input) + tile * program_.tile_bytes;
      case plan::Space::output: return launch_.output + tile * program_.tile_bytes;
      case plan::Space::scratch:
      case plan::Space::window: break; // handled by the other overload
    }
    return launch_.scratch + copy_ * program_.scratch_bytes;
  }

  /// Each label is moved by one thread, starting with the last thread, which has no line to move in
  /// a small message. The lines of all messages are divided among the threads as if they were one
  /// message.
  RONDO_HOST_DEVICE bool movePackets(const Step* first) {
    bool good = true;
    for (std::uint32_t i = block_.threads() - 1 - block_.thread(); i < first->ends;
         i += block_.threads()) {
      const Step& step = first[place(first, i).member];
      good = good && moverOf(first, step).label(i - (step.places - first->places), watch_);
    }
    std::uint64_t line = block_.thread();
    for (std::uint32_t m = 0; m < first->bundle; ++m)
      good = good && moverOf(first, first[m]).lines(line, watch_);
    return good;
  }

  RONDO_HOST_DEVICE void moveSegments(const Step* first, const Step& step) {
    Mover<Block, kType, kOp> mover = moverOf(first, step);
    const Segment* segments = program_.segments + step.segments.first;
    RONDO_NO_UNROLL
    for (std::uint32_t s = 0;; ++s) {
      // One call only: moveSegment() is inlined, so each further call would copy its code.
      moveSegment(mover, first, step, segments[s].count);
      if (s + 1 >= step.segments.count) return;
      block_.all(true); // no thread reads this segment's addresses any more
      for (std::uint32_t i = block_.thread(); i < step.inputs + step.outputs;
           i += block_.threads()) {
        const Place& where = place(&step, i);
        const std::uint64_t offset =
            where.local() ? program_.offsets[where.offsets + s + 1] : segments[s + 1].packed;
        LiveOperand& end = endsOf(first, step)[i];
        end.at = end.base + offset;
      }
      block_.all(true);
    }
  }
  RONDO_HOST_DEVICE void moveSegment(Mover<Block, kType, kOp>& mover,
                                     [[maybe_unused]] const Step* first,
                                     [[maybe_unused]] const Step& step, std::uint64_t count) {
    if constexpr (kSwitch) {
      const LiveOperand* const ends = endsOf(first, step);
      const SwitchMover<Block, kType, kOp> by_switch(block_);
      const std::uint64_t bytes = count * sizeOf(kType);
      if (step.sums) return by_switch.sum(ends[0].at, ends[1].at, step.to_all, bytes);
      if (step.to_all) return by_switch.store(ends[0].at, ends[1].at, bytes);
    }
    mover.segment(count);
  }

  /// Advances a ring's position. Called between the step's barriers, where no other thread reads
  /// it.
  RONDO_HOST_DEVICE void advance(const Step* first, std::uint32_t i, std::uint64_t tile) {
    if (ends_[i].number == 0) return;
    const Place& where = place(first, i);
    const Ring& ring = ringOf(where);
    const std::uint64_t slot = ring.position->slot;
    if (where.output && program_.protocol == Protocol::simple) {
      const Step& step = first[where.member];
      ring.labels[slot] = {
          labelFor(launch_, step), step.bytes, step.lends ? lentBy(first, step) : nullptr,
          step.announces < 0
              ? nullptr
              : spaceAt(plan::Space::output, tile) + program_.offsets[step.announces]};
    }
    *ring.position = {ends_[i].number, slot + 1 == ring.depth ? 0 : slot + 1};
  }

  RONDO_HOST_DEVICE const std::byte* lentBy(const Step* first, const Step& step) const {
    return endsOf(first, step)[place(&step, step.inputs).local() ? step.inputs : 0].at;
  }

  /// Waits until the receivers have read all messages that the lane's steps lent.
  RONDO_HOST_DEVICE bool awaitReturns(const Lane& lane) {
    bool good = true;
    for (std::uint32_t s = 0; s < lane.count; ++s) {
      const Step& step = program_.steps[program_.last_steps + lane.first + s];
      if (!step.lends) continue;
      watch_.at(step.tiles - 1, s);
      for (std::uint32_t i = step.inputs + block_.thread(); i < step.inputs + step.outputs;
           i += block_.threads()) {
        const Place& where = place(&step, i);
        if (where.local()) continue;
        const Ring& ring = ringOf(where);
        good = good && watch_.until(
                           [&] {
                             return block_.template acquire<Scope::system>(ring.consumed) >=
                                    ring.position->number;
                           },
                           Report::Awaited::room, static_cast<std::uint32_t>(where.channel));
      }
    }
    return block_.all(good);
  }

  /// Announces a message or returns a slot. Both use the same store, so the threads of a warp share
  /// one fence.
  RONDO_HOST_DEVICE void tell(const Step* first, std::uint32_t i) {
    const std::uint64_t number = ends_[i].number;
    const Place& where = place(first, i);
    if (number == 0 || (where.output && program_.protocol == Protocol::low_latency)) return;
    const Ring& ring = ringOf(where);
    block_.template release<Scope::system>(where.output ? ring.published : ring.consumed, number);
  }

  /// The division of an integer average, after all blocks have written: each block divides a part.
  RONDO_HOST_DEVICE bool divideOutput() {
    if constexpr (kDivides) {
      const std::uint32_t blocks = program_.blocks();
      if (program_.watched && !meet(0, blocks, [&](std::uint32_t) { return program_.ticks - 1; }))
        return false;
      const std::uint64_t count = program_.output_count;
      const std::uint64_t part = (count + blocks - 1) / blocks;
      const std::uint64_t stop = part * (index_ + 1) < count ? part * (index_ + 1) : count;
      RONDO_NO_UNROLL
      for (std::uint64_t i = part * index_ + block_.thread(); i < stop; i += block_.threads()) {
        std::byte* at = launch_.output + i * sizeOf(kType);
        if (program_.divides_signed) divideAt<Integer<std::make_signed_t<Bits>>>(at);
        else divideAt<Format<kType>>(at);
      }
    }
    return true;
  }
  template <class F>
  RONDO_HOST_DEVICE void divideAt(std::byte* at) const {
    const auto sum = F::load(loadElement<PlainAccess, Bits>(at));
    storeElement<PlainAccess>(at, F::store(divide<F>(sum, launch_.divisor)));
  }

  using Bits = typename Format<kType>::Element;
  static constexpr bool kDivides = !isFloat(kType) && kOp == ReduceOp::Kind::sum;

  const Launch& launch_;
  const Program& program_;
  const std::uint32_t index_, copy_;
  Block& block_;
  LiveOperand* const ends_;
  Watch<Block> watch_;
  std::uint64_t base_ = 0; ///< the lanes' clocks at the start of the launch
};

} // namespace rondo::kernels::cuda
