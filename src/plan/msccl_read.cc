// Reads MSCCL's XML, and proves the plans that it describes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/parse.h"
#include "base/xml.h"
#include "plan/check.h"
#include "plan/msccl.h"
#include "plan/msccl_align.h"
#include "rondo/collectives.h"
#include "rondo/error.h"

namespace rondo::plan {

namespace {

using base::complain;
using base::XmlElement;

// Real files are far below these limits, which keep a hostile one from exhausting the memory.
constexpr std::size_t kMostBytes = 64 << 20;
constexpr int kMostGpus = 4096, kMostChunks = 1 << 20, kMostBlocks = 4096, kMostChannel = 1023;
/// Chunks of all buffers, and steps times thread blocks of a gpu: what the checker keeps for each.
constexpr std::uint64_t kMostCells = 1 << 25, kMostClocks = 1 << 27;

/// Counts the chunks that the steps of a file move, and their waits. A step has about 100 bytes of
/// text, and moves up to half of a buffer. An exported halving_doubling of 1024 ranks has 0.6 moves
/// and waits for each byte of its text.
class Budget {
 public:
  Budget(std::size_t bytes, const std::string& file)
      : most_((std::size_t{1} << 18) + std::min(2 * bytes, kMostBytes / 8)), file_(file) {}

  void spend(std::size_t count, int line) {
    spent_ += count;
    if (spent_ > most_)
      complain(file_, line,
               "more than " + std::to_string(most_) +
                   " chunks of steps and waits, which no real file of this size has");
  }

 private:
  const std::size_t most_;
  const std::string& file_;
  std::size_t spent_ = 0;
};

struct StepForm {
  bool receives, sends, reduces, src, dst; ///< src, dst: it names these pieces
};
const std::map<std::string, StepForm, std::less<>> kForms{
    {"s", {false, true, false, true, false}},    {"r", {true, false, false, false, true}},
    {"rcs", {true, true, false, false, true}},   {"rrs", {true, true, true, true, false}},
    {"rrc", {true, false, true, true, true}},    {"rrcs", {true, true, true, true, true}},
    {"cpy", {false, false, false, true, true}},  {"re", {false, false, true, true, true}},
    {"nop", {false, false, false, false, false}}};

/// Where the buffers of a file are in the spaces of a plan.
struct Buffers {
  struct Place {
    Space space = Space::input;
    std::uint32_t begin = 0;
  };
  Place input, output{Space::output}, scratch{Space::scratch};
  std::uint32_t inputs = 0, outputs = 0, scratches = 0; ///< chunks
};

/// A file's algo: what all gpus have in common.
struct Algo {
  Spec spec;
  std::uint32_t chunks_per_block = 1;
  bool in_place = false;
};

/// Reads one gpu.
class GpuReader {
 public:
  GpuReader(const Algo& algo, const XmlElement& gpu, const std::string& file, Budget& budget)
      : algo_(algo), gpu_(gpu), file_(file), budget_(budget) {
    plan_.spec = algo.spec;
    plan_.rank = number(gpu, "id", 0, algo.spec.ranks - 1);
    plan_.chunks_per_block = algo.chunks_per_block;
    placeBuffers();
  }

  int rank() const { return plan_.rank; }
  RankPlan& plan() { return plan_; }
  std::vector<std::vector<int>>& lines() { return lines_; }

  void read() {
    if (prologue_) copy(prologue_->first, prologue_->second);
    const std::size_t first = plan_.lanes.size();
    for (const XmlElement& block : gpu_.children) number(block);
    for (const XmlElement& block : gpu_.children) readBlock(block);
    for (const Wait& wait : waits_) resolve(wait);
    std::vector<Dependency> ends;
    for (std::size_t lane = first; lane < plan_.lanes.size(); ++lane) {
      auto& steps = plan_.lanes[lane].steps;
      if (steps.empty()) continue;
      if (prologue_) steps.front().after.push_back({0, 0});
      ends.push_back(
          {static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(steps.size() - 1)});
    }
    if (epilogue_) {
      copy(epilogue_->first, epilogue_->second);
      plan_.lanes.back().steps.front().after = ends;
    }
    plan_.scratch_chunks = buffers_.scratches;
  }

 private:
  struct Wait {
    std::size_t lane, step;
    int block, index, line;
  };
  /// A thread block: its lane, and for each of its steps the number of steps of the lane up to it.
  struct Known {
    std::uint32_t lane = 0;
    std::vector<std::uint32_t> done{};
    std::vector<std::optional<Wait>> nops{}; ///< what a nop waits for; of other steps empty

    bool isNop(std::size_t index) const {
      return done[index] == (index == 0 ? 0 : done[index - 1]);
    }
  };

  int number(const XmlElement& of, const char* attribute, int lowest, int highest) const {
    return static_cast<int>(base::needInteger(of, attribute, lowest, highest, file_));
  }
  std::uint32_t blocksIn(bool input) const {
    return input ? inputBlocks(algo_.spec, plan_.rank) : outputBlocks(algo_.spec, plan_.rank);
  }

  /// In place, both buffers are one memory, which the plan's output or scratch replaces: input is
  /// never written.
  void placeBuffers() {
    const std::uint32_t k = algo_.chunks_per_block, ins = blocksIn(true) * k,
                        outs = blocksIn(false) * k,
                        own = static_cast<std::uint32_t>(plan_.rank) * k;
    buffers_.scratches = static_cast<std::uint32_t>(number(gpu_, "s_chunks", 0, kMostChunks));
    const auto declared = [&](const char* name, std::uint32_t most) {
      if (number(gpu_, name, 0, kMostChunks) > static_cast<int>(most))
        complain(file_, gpu_.line,
                 std::string("'") + name + "' is more than the " + std::to_string(most) +
                     " chunks that this rank has in " +
                     std::string(mscclName(algo_.spec.collective)));
    };
    buffers_.inputs = ins;
    buffers_.outputs = outs;
    if (!algo_.in_place) {
      declared("i_chunks", ins);
      declared("o_chunks", outs);
      return;
    }
    const std::uint32_t all = std::max(ins, outs);
    declared("i_chunks", all);
    declared("o_chunks", all);
    switch (algo_.spec.collective) {
      case Collective::allreduce:
      case Collective::broadcast:
        buffers_.input = {Space::output, 0};
        buffers_.inputs = outs;
        if (ins > 0) prologue_ = {Piece{Space::input, 0, k}, Piece{Space::output, 0, k}};
        break;
      case Collective::allgather:
        buffers_.input = {Space::output, own};
        prologue_ = {Piece{Space::input, 0, k}, Piece{Space::output, own, k}};
        break;
      case Collective::reducescatter: {
        const std::uint32_t begin = (buffers_.scratches + k - 1) / k * k;
        buffers_.input = {Space::scratch, begin};
        buffers_.output = {Space::scratch, begin + own};
        buffers_.scratches = begin + ins;
        prologue_ = {Piece{Space::input, 0, ins}, Piece{Space::scratch, begin, ins}};
        epilogue_ = {Piece{Space::scratch, begin + own, k}, Piece{Space::output, 0, k}};
        break;
      }
      default:
        complain(file_, gpu_.line,
                 "in-place files of " + std::string(mscclName(algo_.spec.collective)) +
                     " are not supported; valid: allreduce, broadcast, allgather, reduce_scatter");
    }
  }

  void copy(const Piece& from, const Piece& to) {
    budget_.spend(from.count, gpu_.line);
    Step step;
    step.shape = {Space::input, from.chunk, from.count};
    step.inputs.push_back({.piece = from});
    step.output = to;
    plan_.lanes.push_back({{std::move(step)}});
    lines_.push_back({gpu_.line});
  }

  /// Gives the thread block a lane.
  void number(const XmlElement& block) {
    if (block.name != "tb")
      complain(file_, block.line, "unknown element <" + block.name + ">; valid: tb");
    const int id = number(block, "id", 0, kMostBlocks - 1);
    const auto lane = static_cast<std::uint32_t>(plan_.lanes.size());
    if (!known_.emplace(id, Known{lane}).second)
      complain(file_, block.line, "thread block " + std::to_string(id) + " is defined twice");
    plan_.lanes.emplace_back();
    lines_.emplace_back();
  }

  int channelOf(const XmlElement& block, bool sends) {
    const int peer = number(block, sends ? "send" : "recv", -1, algo_.spec.ranks - 1);
    if (peer < 0) return -1;
    const int index = number(block, "chan", 0, kMostChannel);
    const Channel channel =
        sends ? Channel{plan_.rank, peer, index} : Channel{peer, plan_.rank, index};
    if (peer == plan_.rank) complain(file_, block.line, "a rank has no channel to itself");
    if (std::ranges::find(plan_.channels, channel) != plan_.channels.end())
      complain(file_, block.line,
               "another thread block uses channel " + std::to_string(index) +
                   (sends ? " to" : " from") + " rank " + std::to_string(peer) + ", too");
    plan_.channels.push_back(channel);
    return static_cast<int>(plan_.channels.size() - 1);
  }

  void readBlock(const XmlElement& block) {
    Known& known = known_.find(number(block, "id", 0, kMostBlocks - 1))->second;
    const int out = channelOf(block, true), in = channelOf(block, false);
    std::set<int> used;
    auto& steps = plan_.lanes[known.lane].steps;
    int expected = 0;
    for (const XmlElement& element : block.children) {
      if (element.name != "step")
        complain(file_, element.line, "unknown element <" + element.name + ">; valid: step");
      budget_.spend(1, element.line);
      if (number(element, "s", 0, kMostChunks) != expected++)
        complain(file_, element.line, "step " + std::to_string(expected - 1) + " should be here");
      const auto form = kForms.find(base::need(element, "type", file_));
      if (form == kForms.end())
        complain(file_, element.line,
                 "unknown type " + base::quoted(*element.find("type")) +
                     "; valid: s, r, rcs, rrs, rrc, rrcs, cpy, re, nop");
      const int depends = number(element, "depid", -1, kMostBlocks - 1);
      std::optional<Wait> wait;
      if (depends >= 0) {
        wait = {known.lane, steps.size(), depends, number(element, "deps", 0, kMostChunks),
                element.line};
        waits_.push_back(*wait);
      }
      const bool nop = form->first == "nop";
      if (!nop) {
        add(element, form->second, in, out, steps, used);
        lines_[known.lane].push_back(element.line);
      }
      known.done.push_back(static_cast<std::uint32_t>(steps.size()));
      known.nops.push_back(nop ? wait : std::nullopt);
    }
    // What the last nops wait for does not matter.
    while (!waits_.empty() && waits_.back().lane == known.lane &&
           waits_.back().step == steps.size())
      waits_.pop_back();
    // A channel without messages is none.
    for (const int channel : {in, out})
      if (channel >= 0 && !used.contains(channel))
        complain(file_, block.line, "the thread block has a peer without a message");
  }

  void add(const XmlElement& element, const StepForm& form, int in, int out,
           std::vector<Step>& steps, std::set<int>& used) {
    Step step;
    const auto count = static_cast<std::uint32_t>(number(element, "cnt", 1, kMostChunks));
    if ((form.receives && in < 0) || (form.sends && out < 0))
      complain(file_, element.line,
               std::string("the thread block has no peer that it ") +
                   (form.receives && in < 0 ? "receives from" : "sends to"));
    std::optional<Piece> src, dst;
    if (form.src) src = piece(element, "src", count);
    if (form.dst) dst = piece(element, "dst", count);
    budget_.spend(count, element.line);
    step.shape = {Space::input, (dst ? dst : src)->chunk, count};
    if (form.receives) {
      step.inputs.push_back({.channel = in});
      used.insert(in);
      plan_.message_chunks = std::max(plan_.message_chunks, count);
    }
    if (form.reduces && !form.receives) step.inputs.push_back({.piece = *dst});
    if (src) step.inputs.push_back({.piece = *src});
    step.output = dst;
    if (form.sends) {
      step.sends.push_back(out);
      used.insert(out);
      plan_.message_chunks = std::max(plan_.message_chunks, count);
    }
    steps.push_back(std::move(step));
  }

  Piece piece(const XmlElement& element, const std::string& side, std::uint32_t count) const {
    const std::string& name = base::need(element, side + "buf", file_);
    if (name != "i" && name != "o" && name != "s")
      complain(file_, element.line, "unknown buffer " + base::quoted(name) + "; valid: i, o, s");
    const Buffers::Place& place = name == "i"   ? buffers_.input
                                  : name == "o" ? buffers_.output
                                                : buffers_.scratch;
    const std::uint32_t size = name == "i"   ? buffers_.inputs
                               : name == "o" ? buffers_.outputs
                                             : buffers_.scratches;
    const auto begin =
        static_cast<std::uint32_t>(number(element, (side + "off").c_str(), 0, kMostChunks));
    if (begin + count > size)
      complain(file_, element.line,
               "chunks " + std::to_string(begin) + " to " + std::to_string(begin + count - 1) +
                   " of buffer '" + name + "', which has " + std::to_string(size));
    return {place.space, place.begin + begin, count};
  }

  /// A nop stands for the step before it, and for everything that it and the nops just before it
  /// wait for.
  void resolve(const Wait& wait) {
    std::vector<Wait> open{wait};
    std::set<std::pair<int, int>> seen;
    auto& after = plan_.lanes[wait.lane].steps[wait.step].after;
    while (!open.empty()) {
      Wait one = open.back();
      open.pop_back();
      if (!seen.insert({one.block, one.index}).second) continue;
      budget_.spend(1, one.line);
      const auto index = static_cast<std::size_t>(one.index);
      const auto found = known_.find(one.block);
      if (found == known_.end() || index >= found->second.done.size())
        complain(file_, one.line,
                 "waits for step " + std::to_string(one.index) + " of thread block " +
                     std::to_string(one.block) + ", which does not exist");
      const Known& known = found->second;
      const std::uint32_t done = known.done[index];
      const Dependency dependency{known.lane, done - 1};
      // Steps of the same thread block are in order anyway.
      if (done > 0 && known.lane == wait.lane && dependency.step >= wait.step)
        complain(file_, one.line, "waits for itself or for a later step of its thread block");
      if (done > 0 && known.lane != wait.lane &&
          std::ranges::find(after, dependency) == after.end())
        after.push_back(dependency);
      if (!known.isNop(index)) continue;
      if (known.nops[index]) open.push_back(*known.nops[index]);
      if (one.index-- > 0 && known.isNop(index - 1)) open.push_back(one);
    }
  }

  const Algo& algo_;
  const XmlElement& gpu_;
  const std::string& file_;
  Budget& budget_; ///< of all gpus
  RankPlan plan_;
  Buffers buffers_;
  std::optional<std::pair<Piece, Piece>> prologue_, epilogue_; ///< copies: from, to
  std::map<int, Known> known_;                                 ///< by id of the thread block
  std::vector<Wait> waits_;
  std::vector<std::vector<int>> lines_;
};

Algo algoOf(const XmlElement& root, const std::string& file) {
  if (root.name != "algo") complain(file, root.line, "<" + root.name + "> where <algo> should be");
  Algo algo;
  const std::string& collective = base::need(root, "coll", file);
  try {
    algo.spec.collective = parseCollective(collective);
  } catch (const Error& error) {
    complain(file, root.line, error.what());
  }
  if (!traits(algo.spec.collective).movesData() || algo.spec.collective == Collective::sendrecv)
    complain(file, root.line, "MSCCL has no " + collective);
  algo.spec.ranks = static_cast<int>(base::needInteger(root, "ngpus", 1, kMostGpus, file));
  const auto chunks = base::needInteger(root, "nchunksperloop", 1, kMostChunks, file);
  std::uint32_t blocks = 1;
  for (int rank = 0; rank < algo.spec.ranks; ++rank)
    blocks = std::max({blocks, inputBlocks(algo.spec, rank), outputBlocks(algo.spec, rank)});
  if (chunks % blocks != 0)
    complain(file, root.line,
             "'nchunksperloop' must be a multiple of the " + std::to_string(blocks) +
                 " blocks of a buffer");
  algo.chunks_per_block = static_cast<std::uint32_t>(chunks / blocks);
  if (root.find("inplace")) algo.in_place = base::needInteger(root, "inplace", 0, 1, file) == 1;
  return algo;
}

/// The line of the step that a violation's text names ("rank 1 lane 0 step 2 ..."); otherwise of
/// the algo.
int lineOf(const std::string& violation, const ImportedPlans& imported, int otherwise) {
  unsigned rank = 0, lane = 0, step = 0;
  const auto at = violation.find("rank ");
  if (at == std::string::npos ||
      std::sscanf(violation.c_str() + at, "rank %u lane %u step %u", &rank, &lane, &step) != 3)
    return otherwise;
  if (rank >= imported.lines.size() || lane >= imported.lines[rank].size() ||
      step >= imported.lines[rank][lane].size())
    return otherwise;
  return imported.lines[rank][lane][step];
}

/// Refuses plans that the checker would need too much memory for.
void checkSize(const ImportedPlans& imported, const std::string& file, int line) {
  std::uint64_t cells = 0, steps = 0, blocks = 0;
  for (const RankPlan& plan : imported.plans) {
    cells +=
        (std::uint64_t{inputBlocks(plan.spec, plan.rank)} + outputBlocks(plan.spec, plan.rank)) *
            plan.chunks_per_block +
        plan.scratch_chunks;
    blocks = std::max<std::uint64_t>(blocks, plan.lanes.size());
    for (const Lane& lane : plan.lanes) steps += lane.steps.size();
  }
  if (cells > kMostCells)
    complain(file, line,
             "the buffers have " + std::to_string(cells) + " chunks; at most " +
                 std::to_string(kMostCells) + " are supported");
  if (steps * blocks > kMostClocks)
    complain(file, line,
             std::to_string(steps) + " steps and " + std::to_string(blocks) +
                 " thread blocks of a gpu are too many to prove that they do not race");
}

} // namespace

ImportedPlans parseMsccl(std::string_view text, const std::string& file) {
  if (text.size() > kMostBytes) complain(file, 1, "the file is larger than 64 MiB");
  const XmlElement root = base::parseXml(text, file);
  const Algo algo = algoOf(root, file);
  ImportedPlans imported;
  if (const std::string* name = root.find("name")) imported.name = *name;
  const auto ranks = static_cast<std::size_t>(algo.spec.ranks);
  if (root.children.size() != ranks)
    complain(file, root.line,
             "'ngpus' is " + std::to_string(ranks) + ", but there are " +
                 std::to_string(root.children.size()));
  imported.plans.resize(ranks);
  imported.lines.resize(ranks);
  std::vector<int> seen(ranks);
  Budget budget(text.size(), file);
  std::uint32_t message = 1;
  for (const XmlElement& gpu : root.children) {
    if (gpu.name != "gpu")
      complain(file, gpu.line, "unknown element <" + gpu.name + ">; valid: gpu");
    GpuReader reader(algo, gpu, file, budget);
    const auto rank = static_cast<std::size_t>(reader.rank());
    if (std::exchange(seen[rank], gpu.line) != 0)
      complain(file, gpu.line, "gpu " + std::to_string(rank) + " is defined twice");
    reader.read();
    message = std::max(message, reader.plan().message_chunks);
    imported.plans[rank] = std::move(reader.plan());
    imported.lines[rank] = std::move(reader.lines());
  }
  for (RankPlan& plan : imported.plans) plan.message_chunks = message;
  checkSize(imported, file, root.line);
  if (!alignScratch(imported, kMostCells))
    complain(file, root.line,
             "with each scratch chunk at the place of its data in a block, scratch has more than " +
                 std::to_string(kMostCells) + " chunks");
  checkSize(imported, file, root.line); // aligned steps have one chunk each
  const Report report = check(imported.plans);
  if (!report.ok()) {
    const Violation& first = report.violations.front();
    complain(
        file, lineOf(first.text, imported, root.line),
        "the checker refuses the plan: " + std::string(name(first.obligation)) + ": " + first.text);
  }
  return imported;
}

} // namespace rondo::plan
