// Copies the steps of small plans into a large one, and renames ranks, channels, chunks and
// dependencies.
#include "plan/compose.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <numeric>

#include "plan/check.h"
#include "plan/uneven.h"

namespace rondo::plan {
namespace {

/// Number of channel indices that a part may use.
constexpr int kChannelsOfPart = 1 << 10;

/// For each chunk of the rank's memory and each lane: the last step that uses it, and the last that
/// writes it.
class LastUses {
 public:
  struct Use {
    std::uint32_t lane;
    std::size_t touched, written; ///< number of the step plus 1; 0: none
  };

  /// Calls visit(use, whether the step writes the chunk) for the uses of all chunks of a step.
  void visit(const Step& step, const auto& visit) {
    forChunks(step, [&](std::vector<Use>& uses, bool writes) {
      for (const Use& use : uses) visit(use, writes);
    });
  }
  /// Lanes are added one after the other, each from its first step on.
  void add(std::uint32_t lane, std::size_t number, const Step& step) {
    forChunks(step, [&](std::vector<Use>& uses, bool writes) {
      if (uses.empty() || uses.back().lane != lane) uses.push_back({lane, 0, 0});
      uses.back().touched = number + 1;
      if (writes) uses.back().written = number + 1;
    });
  }

 private:
  void forChunks(const Step& step, const auto& use) {
    const auto each = [&](const Piece& piece, bool writes) {
      auto& chunks = chunks_[static_cast<std::size_t>(piece.space)];
      const std::size_t end = std::size_t{piece.chunk} + piece.count;
      if (chunks.size() < end) chunks.resize(end);
      for (std::size_t chunk = piece.chunk; chunk < end; ++chunk) use(chunks[chunk], writes);
    };
    for (const Operand& operand : step.inputs)
      if (operand.local()) each(operand.piece, false);
    if (step.output) each(*step.output, true);
  }

  std::array<std::vector<std::vector<Use>>, 4> chunks_; ///< by space and chunk
};

/// Removes the output of a step that would copy a piece onto itself.
void dropOwnCopy(Step& step) {
  if (step.output && step.inputs.size() == 1 && step.inputs[0].local() &&
      step.inputs[0].piece == *step.output)
    step.output.reset();
}

class Composer {
 public:
  Composer(const Spec& whole, int rank, std::span<const Part> parts) {
    plan_.spec = whole;
    plan_.rank = rank;
    measure(parts);
    for (const Part& part : parts) reserveScratch(part);
    int number = 0;
    for (const Part& part : parts) add(part, number++);
    numberChannels();
    dropEmptyLanes();
  }

  RankPlan take() { return std::move(plan_); }

 private:
  /// Computes chunks and message size. All ranks must get the same numbers, so parts without this
  /// rank count too. The message size is that of the part with the smallest chunks; other parts are
  /// repeated. Tiles are then as large as possible, and parts follow each other closely.
  void measure(std::span<const Part> parts) {
    struct Sample {
      std::uint32_t chunks_per_block, message_chunks;
    };
    std::vector<Sample> samples;
    std::uint32_t all = 1;
    const Part* before = nullptr;
    for (const Part& part : parts) {
      // Thousands of neighbouring parts may be equal.
      if (before && before->algorithm == part.algorithm && before->spec == part.spec) {
        samples.push_back(samples.back());
      } else {
        const RankPlan plan = part.algorithm->build(part.spec, 0);
        samples.push_back({plan.chunks_per_block, plan.message_chunks});
      }
      before = &part;
      all =
          std::lcm(all, static_cast<std::uint32_t>(part.shares) * samples.back().chunks_per_block);
    }
    plan_.chunks_per_block = all;
    grain_ = 0;
    std::uint32_t most = 1;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto shares = static_cast<std::uint32_t>(parts[i].shares);
      grain_ = std::gcd(grain_, all / shares / samples[i].chunks_per_block);
      most = std::max(most, samples[i].message_chunks);
    }
    plan_.message_chunks = most * grain_;
  }

  void reserveScratch(const Part& part) {
    for (const auto* places : {&part.input, &part.output})
      for (const Units& place : *places)
        for (const Unit& unit : place)
          if (unit.space == Space::scratch)
            scratch_blocks_ = std::max(scratch_blocks_, unit.block + 1);
  }

  void add(const Part& part, int number) {
    const auto own = std::find(part.ranks.begin(), part.ranks.end(), plan_.rank);
    if (own == part.ranks.end()) return;
    const RankPlan small =
        part.algorithm->build(part.spec, static_cast<int>(own - part.ranks.begin()));
    part_ = &part;
    small_ = &small;
    unit_chunks_ = plan_.chunks_per_block / static_cast<std::uint32_t>(part.shares);
    const std::size_t first = plan_.lanes.size();
    plan_.lanes.resize(first + small.lanes.size());
    slices_ = unit_chunks_ / small.chunks_per_block / grain_;
    for (std::size_t unit = 0; unit < mostUnits(); ++unit)
      for (std::uint32_t slice = 0; slice < slices_; ++slice) repeat(first, {unit, slice}, number);
    order(first);
    const auto k = small.chunks_per_block;
    const Units* any = referencePlace();
    scratch_blocks_ += static_cast<int>((small.scratch_chunks + k - 1) / k *
                                        static_cast<std::uint32_t>(any ? any->size() : 1));
  }

  std::size_t mostUnits() const {
    std::size_t most = 0;
    for (const auto* places : {&part_->input, &part_->output})
      for (const Units& place : *places) most = std::max(most, place.size());
    return most;
  }

  /// One repetition of a small plan: it works on one slice of one unit of every block.
  struct Turn {
    std::size_t unit;
    std::uint32_t slice;
  };

  /// Adds the whole small plan for one turn. Blocks with fewer units are left out, as tiles leave
  /// out blocks of different sizes. Both ends of a message leave out the same ones.
  void repeat(std::size_t first, const Turn& turn, int number) {
    std::vector<std::size_t> begin;             // [lane]
    std::vector<std::vector<std::size_t>> ends; // [lane][step]: one after the steps made from it
    for (std::size_t lane = 0; lane < small_->lanes.size(); ++lane) {
      auto& steps = plan_.lanes[first + lane].steps;
      begin.push_back(steps.size());
      auto& made = ends.emplace_back();
      for (const Step& step : small_->lanes[lane].steps) {
        move(step, turn, number, steps);
        made.push_back(steps.size());
      }
    }
    for (std::size_t lane = 0; lane < begin.size(); ++lane) {
      auto& steps = plan_.lanes[first + lane].steps;
      for (std::size_t s = begin[lane]; s < steps.size(); ++s) {
        std::vector<Dependency> after;
        for (const Dependency& d : steps[s].after)
          if (const std::size_t end = ends[d.lane][d.step]; end > begin[d.lane])
            after.push_back(
                {static_cast<std::uint32_t>(first) + d.lane, static_cast<std::uint32_t>(end) - 1});
        steps[s].after = std::move(after);
      }
    }
  }

  /// A place that represents all blocks, if they all have the same units.
  const Units* referencePlace() const {
    for (const auto* places : {&part_->input, &part_->output})
      for (const Units& place : *places)
        if (!place.empty()) return &place;
    return nullptr;
  }

  /// The place of a small plan's block in the large plan.
  Units placeOf(Space space, std::uint32_t block) const {
    if (space == Space::input) return part_->input[block];
    if (space == Space::output) return part_->output[block];
    assert(part_->alike()); // plans for blocks of different sizes use no scratch
    Units place = *referencePlace();
    int next = scratch_blocks_ + static_cast<int>(block * place.size());
    for (Unit& unit : place) unit = {Space::scratch, next++, unit.share};
    return place;
  }

  /// Chunks [j, j+count) of the small plan, in a slice of a unit.
  Piece pieceOf(const Unit& unit, std::uint32_t slice, std::uint32_t j, std::uint32_t count) const {
    return {unit.space,
            static_cast<std::uint32_t>(unit.block) * plan_.chunks_per_block +
                static_cast<std::uint32_t>(unit.share) * unit_chunks_ +
                slice * (unit_chunks_ / slices_) + j * grain_,
            count * grain_};
  }

  /// Copies one step of the small plan. A step of one piece gives one step, a local copy of several
  /// blocks several.
  void move(const Step& step, const Turn& turn, int number, std::vector<Step>& steps) {
    const std::uint32_t k = small_->chunks_per_block;
    for (std::uint32_t done = 0, count = 0; done < step.shape.count; done += count) {
      const std::uint32_t j = (step.shape.chunk + done) % k;
      count = std::min(step.shape.count - done, k - j);
      const Units shape = shapeOf(step, done);
      if (turn.unit >= shape.size()) continue;
      const auto placed = [&](const Piece& piece) {
        return pieceOf(placeOf(piece.space, (piece.chunk + done) / k)[turn.unit], turn.slice, j,
                       count);
      };
      Step made;
      made.shape = pieceOf(shape[turn.unit], turn.slice, j, count);
      made.shape.space = Space::input;
      for (const Operand& operand : step.inputs)
        made.inputs.push_back(operand.local() ? Operand{Operand::kLocal, placed(operand.piece)}
                                              : Operand{channelOf(operand.channel, number), {}});
      if (step.output) made.output = placed(*step.output);
      for (const int channel : step.sends) made.sends.push_back(channelOf(channel, number));
      if (done == 0) made.after = step.after; // numbers of the small plan, which repeat() replaces
      dropOwnCopy(made);
      if (made.output || !made.sends.empty() || !made.after.empty())
        steps.push_back(std::move(made));
    }
  }

  /// A place that determines the step's size.
  Units shapeOf(const Step& step, std::uint32_t done) const {
    const std::uint32_t k = small_->chunks_per_block;
    if (step.output) return placeOf(step.output->space, (step.output->chunk + done) / k);
    for (const Operand& operand : step.inputs)
      if (operand.local()) return placeOf(operand.piece.space, (operand.piece.chunk + done) / k);
    assert(part_->alike()); // a message that is only passed on
    return *referencePlace();
  }

  int channelOf(int small_channel, int number) {
    const Channel& channel = small_->channels[static_cast<std::size_t>(small_channel)];
    assert(channel.index < kChannelsOfPart);
    const auto rank = [this](int place) { return part_->ranks[static_cast<std::size_t>(place)]; };
    const Channel wanted{rank(channel.src), rank(channel.dst),
                         number * kChannelsOfPart + channel.index};
    const auto [at, added] = channels_.try_emplace(wanted, static_cast<int>(plan_.channels.size()));
    if (added) plan_.channels.push_back(wanted);
    return at->second;
  }

  /// Makes the lanes from `first` on wait for earlier parts that use the same memory.
  void order(std::size_t first) {
    for (std::size_t lane = first; lane < plan_.lanes.size(); ++lane) {
      std::vector<std::size_t> waited(first, 0); // steps of each earlier lane already waited for
      for (Step& step : plan_.lanes[lane].steps) {
        std::vector<std::size_t> last = waited;
        // A step waits for the last use of what it writes, and for the last write of what it reads.
        uses_.visit(step, [&](const LastUses::Use& use, bool writes) {
          last[use.lane] = std::max(last[use.lane], writes ? use.touched : use.written);
        });
        for (std::uint32_t other = 0; other < first; ++other)
          if (last[other] > waited[other])
            step.after.push_back({other, static_cast<std::uint32_t>(last[other] - 1)});
        waited = std::move(last);
      }
    }
    for (std::size_t lane = first; lane < plan_.lanes.size(); ++lane)
      for (std::size_t s = 0; s < plan_.lanes[lane].steps.size(); ++s)
        uses_.add(static_cast<std::uint32_t>(lane), s, plan_.lanes[lane].steps[s]);
  }

  /// Channels between two ranks get the indices 0, 1, ... in the order of parts. Both ends see the
  /// same channels, so they assign the same numbers.
  void numberChannels() {
    std::map<std::pair<int, int>, int> next;
    for (const auto& [channel, at] : channels_)
      plan_.channels[static_cast<std::size_t>(at)].index = next[{channel.src, channel.dst}]++;
  }

  void dropEmptyLanes() {
    std::vector<std::uint32_t> number;
    std::uint32_t kept = 0;
    for (const Lane& lane : plan_.lanes) number.push_back(lane.steps.empty() ? kept : kept++);
    std::erase_if(plan_.lanes, [](const Lane& lane) { return lane.steps.empty(); });
    for (Lane& lane : plan_.lanes)
      for (Step& step : lane.steps)
        for (Dependency& d : step.after) d.lane = number[d.lane];
    const auto note = [this](const Piece& piece) {
      if (piece.space == Space::scratch)
        plan_.scratch_chunks = std::max(plan_.scratch_chunks, piece.chunk + piece.count);
    };
    for (const Lane& lane : plan_.lanes)
      for (const Step& step : lane.steps) {
        for (const Operand& operand : step.inputs)
          if (operand.local()) note(operand.piece);
        if (step.output) note(*step.output);
      }
  }

  RankPlan plan_;
  std::map<Channel, int> channels_; ///< by the part's channel: position in plan_.channels
  LastUses uses_;                   ///< by the parts added so far
  int scratch_blocks_ = 0;          ///< scratch blocks used so far
  std::uint32_t grain_ = 1;         ///< chunks that represent one chunk of a small plan

  // State of the part that is being added.
  const Part* part_ = nullptr;
  const RankPlan* small_ = nullptr;
  std::uint32_t unit_chunks_ = 1, slices_ = 1;
};

} // namespace

bool Part::alike() const {
  return !scattered &&
         std::count(weights.begin(), weights.end(), weights.front()) == std::ssize(weights);
}

RankPlan compose(const Spec& whole, int rank, std::span<const Part> parts) {
  return Composer(whole, rank, parts).take();
}

bool serves(const Algorithm& algorithm, const Part& part) {
  if (!algorithm.supports(part.spec)) return false;
  if (part.spec.ranks == 1) return true;
  const RankPlan any = algorithm.build(part.spec, 0);
  if (any.message_chunks > any.chunks_per_block) return false;
  return part.alike() || servesUneven(buildAll(algorithm, part.spec));
}

} // namespace rondo::plan
